/* The kernels for the emulated device, by the launcher that all devices share. */
#include "kernels/gpu/launch.h"
#include "tests/gpu/emulated.h"

namespace
{

struct launcher {
    void *stream;

    template <typename A> int start(unsigned x, unsigned y, void (*kernel)(A), const A &arguments)
    {
        A copy = arguments;

        if (x > 0 && y > 0) {
            k3_emulated::enqueue(stream, [=]() {
                k3_emulator::watch_races(false); /* found by the tests of each kernel */
                return k3_emulator::launch({x, y, k3_threads}, kernel, copy);
            });
        }
        return 0;
    }
};

template <typename A> int begin(const A *arguments, void *stream)
{
    launcher l = {stream};

    return k3_start(l, *arguments);
}

} // namespace

extern const k3_gpu_t k3_gpu_emulated = {"emulated", begin, begin, begin, begin, begin,
                                         begin,      begin, begin, begin, begin, begin,
                                         begin,      begin, begin, begin};
