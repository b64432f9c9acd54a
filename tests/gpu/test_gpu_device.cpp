/* The device layer on the emulated device, and what the emulation itself promises: the host cannot touch the
 * device's memory, and nothing is done before it is waited for. */
#include <stddef.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
}

extern "C" {
#include "harness/base/status.h"
}
#include "tests/gpu/emulated.h"

static k3_device_t device;

static int open_device(void **)
{
    k3_error_t err = K3_ERROR_INIT;

    return k3_device_open(&k3_device_kind_emulated, 0, 3, false, &device, &err);
}

static int close_device(void **)
{
    k3_device_close(&device);
    unsetenv("K3_EMULATED_BYTES");
    return 0;
}

static char *alloc(uint64_t bytes, bool transported)
{
    k3_error_t err = K3_ERROR_INIT;
    void      *memory = nullptr;

    assert_int_equal(k3_device_alloc(&device, "a test", bytes, transported, &memory, &err), K3_OK);
    return (char *)memory;
}

static void finish(void)
{
    k3_error_t err = K3_ERROR_INIT;

    assert_int_equal(k3_device_finish(&device, K3_STREAM_MAIN, &err), K3_OK);
}

/* How a child ends that reads, or writes, there. */
static int signal_of(char *at, bool store)
{
    int   status = 0;
    pid_t child = fork();

    if (child == 0) {
        volatile char *byte = at;

        signal(SIGSEGV, SIG_DFL); /* cmocka catches it */
        if (store) {
            *byte = 1;
        }
        _exit(*byte == 77 ? 1 : 0);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void test_stray_access(void **)
{
    char *memory = alloc(100, true), *reached = memory + k3_device_reach(&device, memory);

    assert_int_equal(signal_of(memory, false), SIGSEGV);
    assert_int_equal(signal_of(memory + 99, true), SIGSEGV);
    assert_int_equal(signal_of(reached, true), 0); /* a transport */
    k3_device_free(&device, memory);
    assert_int_equal(device.bytes, 0);
}

static void test_staged(void **)
{
    char *memory;

    device.staged = true;
    memory = alloc(100, true);
    assert_int_equal(k3_device_reach(&device, memory), 0);
    assert_int_equal(signal_of(memory, true), 0);
    k3_device_free(&device, memory);
    memory = alloc(100, false); /* no transport touches it: it stays where it belongs */
    assert_int_equal(signal_of(memory, true), SIGSEGV);
    k3_device_free(&device, memory);
}

/* Both mistakes of code without waiting: a result looked at too early, an input changed too early. */
static void test_nothing_before_finish(void **)
{
    char  in[8] = "before", out[8] = "nothing";
    char *memory = alloc(8, false);

    k3_device_copy(&device, K3_STREAM_MAIN, memory, in, 8);
    k3_device_copy(&device, K3_STREAM_MAIN, out, memory, 8);
    assert_string_equal(out, "nothing");
    memcpy(in, "after", 6);
    finish();
    assert_string_equal(out, "after");
    k3_device_free(&device, memory);
}

static void test_fork_and_join(void **)
{
    char       a[4] = "a", out[4] = "";
    char      *memory = alloc(4, false);
    k3_error_t err = K3_ERROR_INIT;
    void      *begin, *end;

    assert_int_equal(k3_device_event_create(&device, &begin, &err), K3_OK);
    assert_int_equal(k3_device_event_create(&device, &end, &err), K3_OK);
    k3_device_event_record(&device, begin, K3_STREAM_MAIN);
    k3_device_copy(&device, K3_STREAM_MAIN, memory, a, 4);
    k3_device_fork(&device);
    k3_device_copy(&device, K3_STREAM_BESIDE, out, memory, 4);
    finish(); /* the main stream alone */
    assert_string_equal(out, "");
    k3_device_join(&device);
    k3_device_event_record(&device, end, K3_STREAM_MAIN);
    finish();
    assert_string_equal(out, "a");
    assert_true(k3_device_event_us(&device, begin, end) >= 0.0);
    k3_device_event_destroy(&device, begin);
    k3_device_event_destroy(&device, end);
    k3_device_free(&device, memory);
}

static void test_faults(void **)
{
    k3_error_t err = K3_ERROR_INIT;
    void      *memory = nullptr;

    setenv("K3_EMULATED_BYTES", "1000", 1);
    assert_int_equal(k3_device_alloc(&device, "slots", 1001, false, &memory, &err), K3_ERR_ENV);
    assert_null(memory);
    assert_non_null(strstr(err.text, "1001 bytes for slots: alloc of the emulated device: out of "
                                     "memory (code 2) on emulated device 0"));
    assert_non_null(strstr(err.text, "of rank 3"));
    /* The first fault stays, and nothing is started after it. */
    k3_device_fill(&device, K3_STREAM_MAIN, (void *)16, 0, 16);
    k3_error_clear(&err);
    assert_int_equal(k3_device_finish(&device, K3_STREAM_MAIN, &err), K3_ERR_ENV);
    assert_non_null(strstr(err.text, "out of memory"));
    k3_error_clear(&err);
    assert_int_equal(k3_device_open(&k3_device_kind_emulated, 7, 0, false, &device, &err),
                     K3_ERR_ENV);
    assert_non_null(strstr(err.text, "no such device"));
    open_device(nullptr);
}

static void test_copy_beyond(void **)
{
    char      *memory = alloc(16, false), out[32];
    k3_error_t err = K3_ERROR_INIT;

    k3_device_copy(&device, K3_STREAM_MAIN, out, memory + 8, 16);
    assert_int_equal(k3_device_finish(&device, K3_STREAM_MAIN, &err), K3_ERR_ENV);
    assert_non_null(strstr(err.text, "copy beyond the end of a block"));
    k3_device_free(&device, memory);
}

static void test_assign(void **)
{
    const int near[] = {1, 5, 5, 9, 5, 5, 0, 0, 1, 9, 9, 9};
    const int masked[] = {-1, 3, 3, -1, -1, -1};
    int       chosen[4];

    k3_device_assign(4, 3, near,
                     chosen); /* nearest, then the nearest that is left; the fourth shares */
    assert_int_equal(chosen[0], 1);
    assert_int_equal(chosen[1], 0);
    assert_int_equal(chosen[2], 2);
    assert_int_equal(chosen[3], 0);
    k3_device_assign(3, 2, masked, chosen); /* each sees one, the third none */
    assert_int_equal(chosen[0], 1);
    assert_int_equal(chosen[1], 0);
    assert_int_equal(chosen[2], -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_stray_access, open_device, close_device),
        cmocka_unit_test_setup_teardown(test_staged, open_device, close_device),
        cmocka_unit_test_setup_teardown(test_nothing_before_finish, open_device, close_device),
        cmocka_unit_test_setup_teardown(test_fork_and_join, open_device, close_device),
        cmocka_unit_test_setup_teardown(test_faults, open_device, close_device),
        cmocka_unit_test_setup_teardown(test_copy_beyond, open_device, close_device),
        cmocka_unit_test(test_assign),
    };

    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
