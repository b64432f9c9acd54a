/* Reading the transport of an endpoint from what UCX prints about it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "harness/mpi/qp_internal.h"

static void expect(const char *info, const char *backing, const char *name)
{
    char found[K3_TRANSPORT_MAX];

    k3_transport_parse(info, backing, found);
    assert_string_equal(found, name);
}

#define SHARED_MEMORY                                                                              \
    "#\n# UCP endpoint \n#\n#               peer: <no debug data>\n"                               \
    "#                 lane[0]:  3:sysv/memory.0 md[2]           -> md[2]/sysv/sysdev[255] "       \
    "amo#0 am am_bw#0\n"                                                                           \
    "#                 lane[1]:  4:posix/memory.0 md[3]          -> md[3]/posix/sysdev[255] "      \
    "amo#1\n#\n"                                                                                   \
    "#                  put[0]: 0..<short>..4294967296..<bcopy>..(inf)\n"                          \
    "#                  get[0]: 0..<bcopy>..(inf)\n"                                               \
    "#                  put[1]: 0..<short>..4294967296..<bcopy>..(inf)\n"

static void shared_memory(void **state)
{
    (void)state;
    expect(SHARED_MEMORY, "sysv", "sysv/memory");
    expect(SHARED_MEMORY, "posix", "posix/memory");
    expect(SHARED_MEMORY, "", "sysv/memory");
}

/* No lane for remote memory access: puts are active messages. */
static void emulated(void **state)
{
    (void)state;
    expect("# UCP endpoint \n#                 lane[0]:  2:tcp/lo.0 md[1]                -> "
           "md[1]/tcp/sysdev[255] am am_bw#0 wireup\n#\n#                  rma_bw: mds #\n",
           "sysv", "tcp/lo");
}

static void verbs(void **state)
{
    (void)state;
    expect("#   lane[0]:  9:rc_mlx5/mlx5_0:1.0 md[5]    -> md[5]/ib/sysdev[0] am am_bw#0\n"
           "#   lane[1]: 11:dc_mlx5/mlx5_1:1.1 md[6]    -> md[6]/ib/sysdev[1] amo#0\n"
           "#   put[0]: 0..<short>..(inf)\n",
           "sysv", "rc_mlx5/mlx5_0:1");
    expect("#   lane[0]:  9:rc_mlx5/mlx5_0:1.0 md[5]    -> md[5]/ib/sysdev[0] am am_bw#0\n"
           "#   lane[1]: 11:rc_verbs/mlx5_1:1.1 md[6]    -> md[6]/ib/sysdev[1] rma#0 amo#0\n",
           "", "rc_verbs/mlx5_1:1");
}

static void nothing(void **state)
{
    (void)state;
    expect("", "", "unknown");
    expect("# UCP endpoint\n", "sysv", "unknown");
    expect("#  lane[77]: x\n#  put[3]: 0..\n#  lane[0]:", "", "unknown");
}

static void backing(void **state)
{
    char text[16];
    int  local = 0;

    (void)state;
    k3_memory_backing(&local, text, sizeof(text));
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_memory), cmocka_unit_test(emulated), cmocka_unit_test(verbs),
        cmocka_unit_test(nothing),       cmocka_unit_test(backing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
