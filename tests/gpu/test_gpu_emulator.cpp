/* The emulator finds what it is there to find: kernels with one planted fault each. */
#include "machine.h"

struct numbers {
    uint32_t *in, *out;
    uint32_t  n;
};

static void expect_fault(const std::string &fault, const char *words)
{
    if (fault.find(words) == std::string::npos) {
        print_error("\"%s\" does not say \"%s\"\n", fault.c_str(), words);
    }
    assert_true(fault.find(words) != std::string::npos);
}

template <typename A> static std::string run_one(void (*kernel)(A), const A &a, unsigned blocks = 1)
{
    emulated machine;

    return machine.start(blocks, 1, kernel, a);
}

/* Each thread gets its neighbour's number, through shared memory. */
template <bool with_barrier> K3_KERNEL neighbour(numbers a)
{
    K3_SHARED(uint32_t, line, k3_threads);
    k3_store(line + k3_thread(), k3_load(a.in + k3_thread()));
    if (with_barrier) {
        k3_barrier();
    }
    k3_store(a.out + k3_thread(), k3_load(line + (k3_thread() + 1) % k3_threads));
}

static void test_missing_barrier(void **state)
{
    device<uint32_t> in(k3_threads), out(k3_threads, true);
    numbers          a = {in.data(), out.data(), k3_threads};

    (void)state;
    for (uint32_t i = 0; i < k3_threads; i++) {
        in[i] = i;
    }
    for (unsigned order : {0u, 3u, 11u}) {
        k3_emulator::set_order(order);
        assert_string_equal(run_one(neighbour<true>, a).c_str(), "");
        assert_int_equal(out[0], 1);
        expect_fault(run_one(neighbour<false>, a), "races");
    }
}

/* Read, barrier, write: without the second barrier the loop's next store meets a late reader. */
template <bool with_second> K3_KERNEL twice(numbers a)
{
    K3_SHARED(uint32_t, line, k3_threads);
    for (unsigned i = 0; i < 2; i++) {
        k3_store(line + k3_thread(), k3_load(a.in + k3_thread()) + i);
        k3_barrier();
        k3_store(a.out + k3_thread(), k3_load(line + (k3_thread() + k3_warp) % k3_threads));
        if (with_second) {
            k3_barrier();
        }
    }
}

static void test_reuse(void **state)
{
    device<uint32_t> in(k3_threads), out(k3_threads, true);
    numbers          a = {in.data(), out.data(), k3_threads};

    (void)state;
    assert_string_equal(run_one(twice<true>, a).c_str(), "");
    expect_fault(run_one(twice<false>, a), "races");
}

/* All blocks store the same word: never ordered. */
K3_KERNEL collide(numbers a)
{
    if (k3_thread() == 0) {
        k3_store(a.out, k3_block(0));
    }
}

static void test_blocks(void **state)
{
    device<uint32_t> out(1, true);
    numbers          a = {nullptr, out.data(), 1};

    (void)state;
    assert_string_equal(run_one(collide, a, 1).c_str(), "");
    expect_fault(run_one(collide, a, 2), "races");
}

/* Lanes of a warp are ordered by its exchanges, and by nothing else. */
template <bool with_exchange> K3_KERNEL within_warp(numbers a)
{
    K3_SHARED(uint32_t, line, k3_threads);
    k3_store(line + k3_thread(), k3_thread());
    if (with_exchange) {
        k3_shuffle_xor(0u, 1);
    }
    k3_store(a.out + k3_thread(), k3_load(line + (k3_thread() ^ 1u)));
}

static void test_warp(void **state)
{
    device<uint32_t> out(k3_threads, true);
    numbers          a = {nullptr, out.data(), 0};

    (void)state;
    assert_string_equal(run_one(within_warp<true>, a).c_str(), "");
    expect_fault(run_one(within_warp<false>, a), "races");
}

K3_KERNEL past_the_end(numbers a)
{
    k3_store(a.out + k3_thread(), k3_load(a.in + k3_thread() + 1));
}

K3_KERNEL into_input(numbers a)
{
    k3_store(a.in + k3_thread(), 1u);
}

K3_KERNEL crooked(numbers a)
{
    k3_load16(a.in + 1);
}

static void test_memory(void **state)
{
    device<uint32_t> in(k3_threads), out(k3_threads, true);
    numbers          a = {in.data(), out.data(), k3_threads};

    (void)state;
    expect_fault(run_one(past_the_end, a), "load of 4 bytes");
    expect_fault(run_one(past_the_end, a), "outside");
    expect_fault(run_one(into_input, a), "store of 4 bytes");
    expect_fault(run_one(crooked, a), "not aligned");
}

K3_KERNEL some_leave(numbers a)
{
    if (k3_thread() < a.n) {
        return;
    }
    k3_barrier();
}

K3_KERNEL half_a_warp(numbers a)
{
    if (k3_lane() < a.n) {
        k3_shuffle_xor(1u, 1);
    }
}

static void test_who_does_not_come(void **state)
{
    numbers a = {nullptr, nullptr, 3};

    (void)state;
    expect_fault(run_one(some_leave, a), "do not come");
    expect_fault(run_one(half_a_warp, a), "do not come");
}

template <unsigned step> K3_KERNEL strided(numbers)
{
    K3_SHARED(uint32_t, line, k3_threads * step);
    k3_store(line + k3_thread() * step, 1u);
}

static void test_counts(void **state)
{
    device<uint32_t> in(k3_threads), out(k3_threads, true);
    numbers          a = {in.data(), out.data(), k3_threads};

    (void)state;
    assert_string_equal(run_one(strided<1>, a).c_str(), "");
    assert_int_equal(k3_emulator::last_counts().bank_ways, 1);
    assert_string_equal(run_one(strided<2>, a).c_str(), "");
    assert_int_equal(k3_emulator::last_counts().bank_ways, 2);
    assert_string_equal(run_one(strided<32>, a).c_str(), "");
    assert_int_equal(k3_emulator::last_counts().bank_ways, 32);
    assert_string_equal(run_one(neighbour<true>, a).c_str(), "");
    assert_int_equal(k3_emulator::last_counts().read_bytes, 4 * k3_threads);
    assert_int_equal(k3_emulator::last_counts().written_bytes, 4 * k3_threads);
    assert_int_equal(k3_emulator::last_counts().wide, 0);
}

/* One product by hand: a row of ones times a column of ones and one of halves. */
struct products {
    float *out;
};

K3_KERNEL multiply(products a)
{
    constexpr uint32_t one = 0x3f80u, ones = one | one << 16, halves = 0x3f003f00u;
    uint32_t           left[4] = {}, right[2];
    float              acc[4] = {1, 1, 1, 1};

    for (unsigned r = 0; r < k3_lane_rows; r++) {
        left[2 * r] = k3_a_row(r) == 3 ? ones : 0;
        left[2 * r + 1] = k3_a_row(r) == 3 ? ones : 0;
    }
    right[0] = right[1] = k3_b_column() == 2 ? halves : k3_b_column() == 5 ? ones : 0;
    k3_mma(acc, left, right);
    for (unsigned i = 0; i < 4 && k3_thread() < k3_warp; i++) {
        k3_store(a.out + k3_c_row(i) * k3_mma_columns + k3_c_column(i), acc[i]);
    }
}

static void test_product(void **state)
{
    device<float> out(k3_mma_rows * k3_mma_columns, true);
    products      a = {out.data()};

    (void)state;
    assert_string_equal(run_one(multiply, a).c_str(), "");
    for (unsigned row = 0; row < k3_mma_rows; row++) {
        for (unsigned column = 0; column < k3_mma_columns; column++) {
            float want = row == 3 ? (column == 2 ? 9.0f : column == 5 ? 17.0f : 1.0f) : 1.0f;

            assert_true(out[row * k3_mma_columns + column] == want);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_barrier), cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_blocks),          cmocka_unit_test(test_warp),
        cmocka_unit_test(test_memory),          cmocka_unit_test(test_who_does_not_come),
        cmocka_unit_test(test_counts),          cmocka_unit_test(test_product),
    };

    return cmocka_run_group_tests_name("gpu emulator", tests, NULL, NULL);
}
