#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/cell/npy.h"

static char folder[] = "/tmp/k3_test_npy.XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(path, sizeof(path), "%s/array.npy", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_file(const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static size_t compose(char *file, unsigned major, const char *header, size_t data)
{
    size_t prefix = major == 1 ? 10 : 12, length = strlen(header);

    memset(file, 0, prefix);
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (char)major;
    file[8] = (char)(length & 0xff);
    file[9] = (char)(length >> 8);
    memcpy(file + prefix, header, length);
    memset(file + prefix + length, 1, data);
    return prefix + length + data;
}

static void assert_file_refused(const char *part, const char *other)
{
    k3_error_t err = K3_ERROR_INIT;
    k3_npy_t   a;

    assert_int_equal(k3_npy_read(path, &a, &err), K3_ERR_USAGE);
    assert_null(a.data);
    if (strstr(err.text, part) == NULL || strstr(err.text, other) == NULL ||
        strstr(err.text, path) == NULL) {
        fail_msg("\"%s\" lacks \"%s\", \"%s\" or the file", err.text, part, other);
    }
}

static void assert_header_refused(const char *header, const char *part, const char *other)
{
    char file[8192];

    write_file(file, compose(file, 1, header, 16));
    assert_file_refused(part, other);
}

static void read_ok(k3_npy_t *a)
{
    k3_error_t err = K3_ERROR_INIT;

    if (k3_npy_read(path, a, &err) != K3_OK) {
        fail_msg("%s", err.text);
    }
}

static void test_round_trip(void **state)
{
    static const uint64_t sizes[] = {4, 8, 4, 1, 2};
    uint64_t              shape[K3_NPY_DIMS] = {2, 3, 1, 4};
    unsigned char         data[24 * 8];

    (void)state;
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (unsigned char)(i * 37 + 11);
    }
    for (unsigned type = K3_NPY_I32; type <= K3_NPY_U16; type++) {
        for (unsigned dims = 0; dims <= K3_NPY_DIMS; dims++) {
            k3_error_t err = K3_ERROR_INIT;
            k3_npy_t   a;
            uint64_t   count = 1;

            for (unsigned d = 0; d < dims; d++) {
                count *= shape[d];
            }
            assert_int_equal(k3_npy_write(path, (k3_npy_type_t)type, dims, shape, data, &err),
                             K3_OK);
            read_ok(&a);
            assert_int_equal(a.type, type);
            assert_int_equal(a.dims, dims);
            assert_memory_equal(a.shape, shape, dims * sizeof(shape[0]));
            assert_memory_equal(a.data, data, count * sizes[type]);
            k3_npy_free(&a);
        }
    }
}

/* What numpy.save writes: the data begin at a multiple of 64. */
static void test_written_bytes(void **state)
{
    static const char     header[] = "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }";
    static const uint64_t shape[1] = {3};
    static const int32_t  data[3] = {7, -1, 895};
    k3_error_t            err = K3_ERROR_INIT;
    char                  file[256];
    FILE                 *stream;

    (void)state;
    assert_int_equal(k3_npy_write(path, K3_NPY_I32, 1, shape, data, &err), K3_OK);
    stream = fopen(path, "rb");
    assert_non_null(stream);
    assert_int_equal(fread(file, 1, sizeof(file), stream), 128 + 12);
    fclose(stream);
    assert_memory_equal(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    assert_memory_equal(file + 10, header, sizeof(header) - 1);
    assert_int_equal(file[127], '\n');
    assert_memory_equal(file + 128, data, sizeof(data));
}

static void test_large_shapes_round_trip(void **state)
{
    uint64_t   shape[4] = {INT64_MAX, 0, INT64_MAX, INT64_MAX};
    k3_error_t err = K3_ERROR_INIT;
    k3_npy_t   a;

    (void)state;
    shape[0] = 0;
    assert_int_equal(k3_npy_write(path, K3_NPY_I64, 4, shape, NULL, &err), K3_OK);
    read_ok(&a);
    assert_int_equal(a.shape[3], INT64_MAX);
    k3_npy_free(&a);
}

static void test_accepted_forms(void **state)
{
    static const char *const headers[] = {
        "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }    \n",
        "{\"shape\": (2, 2), \"descr\": \"<i4\", \"fortran_order\": False}",
        "{'fortran_order':False,'shape':(2,2,),'descr':'<i4'}\n",
    };
    char file[256];

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        k3_npy_t a;

        write_file(file, compose(file, 1 + i % 2, headers[i / 2], 16));
        read_ok(&a);
        assert_int_equal(a.type, K3_NPY_I32);
        assert_int_equal(a.dims, 2);
        assert_int_equal(a.shape[1], 2);
        assert_int_equal(((const int32_t *)a.data)[3], 0x01010101);
        k3_npy_free(&a);
    }
}

/* Every shorter file is refused, at every length. */
static void test_truncated(void **state)
{
    char   file[256];
    size_t n =
        compose(file, 2, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }\n", 16);

    (void)state;
    for (size_t length = 0; length < n; length++) {
        write_file(file, length);
        assert_file_refused("", "");
    }
    write_file(file, n - 1);
    assert_file_refused("truncated: 15 bytes", "needs 16");
    write_file(file, n + 3);
    assert_file_refused("too long: 19 bytes", "needs 16");
}

static void test_bad_start(void **state)
{
    char   file[256];
    size_t n = compose(file, 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }\n", 4);

    (void)state;
    file[1] = 'n';
    write_file(file, n);
    assert_file_refused("magic", "NUMPY");
    file[1] = 'N';
    file[6] = 3;
    write_file(file, n);
    assert_file_refused("version 3.0", "1.0 and 2.0");
    file[6] = 1;
    file[7] = 1;
    write_file(file, n);
    assert_file_refused("version 1.1", "1.0 and 2.0");
}

static void test_header_longer_than_file(void **state)
{
    char   file[256];
    size_t n = compose(file, 2, "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }\n", 4);

    (void)state;
    memset(file + 8, 0xff, 4);
    write_file(file, n);
    assert_file_refused("header of 4294967295 bytes", "follow in the file");
    memset(file + 8, 0, 4);
    file[8] = 63;
    write_file(file, n);
    assert_file_refused("header of 63 bytes (62 follow", "");
}

static void test_header_longer_than_the_limit(void **state)
{
    static char header[5000], file[6000];

    (void)state;
    memset(header, ' ', sizeof(header) - 1);
    memcpy(header, "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }", 57);
    write_file(file, compose(file, 1, header, 4));
    assert_file_refused("header of 4999 bytes", "at most 4096");
}

static void test_shape_refusals(void **state)
{
#define SHAPE(text) "{'descr': '<i4', 'fortran_order': False, 'shape': " text ", }\n"
    (void)state;
    assert_header_refused(SHAPE("(4294967296, 4294967296)"), "product", "64 bits");
    assert_header_refused(SHAPE("(9223372036854775807,)"), "product", "64 bits");
    assert_header_refused(SHAPE("(4611686018427387904,)"), "product", "64 bits");
    assert_header_refused(SHAPE("(18446744073709551616,)"), "does not fit", "63 bits");
    assert_header_refused(SHAPE("(99999999999999999999999999,)"), "does not fit", "63 bits");
    assert_header_refused(SHAPE("(-4,)"), "negative", "");
    assert_header_refused(SHAPE("(2, -1)"), "negative", "");
    assert_header_refused(SHAPE("(2, )(2)"), "comma", "brace");
    assert_header_refused(SHAPE("(1, 1, 1, 1, 4)"), "more than 4", "");
    assert_header_refused(SHAPE("(4)"), "not a tuple", "");
    assert_header_refused(SHAPE("4"), "lacks '('", "");
    assert_header_refused(SHAPE("(2 2)"), "comma", "");
    assert_header_refused(SHAPE("(,)"), "lacks a number", "");
    assert_header_refused(SHAPE("(0x4,)"), "comma", "");
    assert_header_refused(SHAPE("(4.0,)"), "comma", "");
    assert_header_refused(SHAPE("(4"), "number", "");
    assert_header_refused(SHAPE("(5,)"), "truncated: 16 bytes", "needs 20");
#undef SHAPE
}

static void test_type_refusals(void **state)
{
#define TYPE(text) "{'descr': " text ", 'fortran_order': False, 'shape': (4,), }\n"
    (void)state;
    assert_header_refused(TYPE("'>i4'"), "'>i4'", "big endian");
    assert_header_refused(TYPE("'|O'"), "'|O'", "Python objects");
    assert_header_refused(TYPE("'<f8'"), "'<f8'", "<i4, <i8");
    assert_header_refused(TYPE("'<i4 '"), "'<i4 '", "not one of");
    assert_header_refused(TYPE("''"), "element type ''", "not one of");
    assert_header_refused(TYPE("[('a', '<i4')]"), "structured", "");
    assert_header_refused(TYPE("'<i4"), "", "");
    assert_header_refused(TYPE("'<i4\\''"), "", "");
    assert_header_refused(TYPE("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"), "no end", "");
    assert_header_refused(TYPE("'\x01'"), "no end", "");
#undef TYPE
}

static void test_order_and_keys(void **state)
{
    (void)state;
    assert_header_refused("{'descr': '<i4', 'fortran_order': True, 'shape': (4,), }\n",
                          "fortran_order True", "C order");
    assert_header_refused("{'descr': '<i4', 'fortran_order': 0, 'shape': (4,), }\n",
                          "fortran_order", "neither");
    assert_header_refused("{'descr': '<i4', 'shape': (4,), }\n", "lacks one of", "fortran_order");
    assert_header_refused("{}\n", "lacks one of", "descr");
    assert_header_refused("{'descr': '<i4', 'descr': '<i4', }\n", "'descr'", "given twice");
    assert_header_refused("{'Descr': '<i4', }\n", "'Descr'", "unknown");
    assert_header_refused("{'descr' '<i4', }\n", "lacks ':'", "");
    assert_header_refused("{'descr': '<i4' 'shape': (4,), }\n", "comma", "brace");
    assert_header_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (4,), } x\n",
                          "something follows", "");
    assert_header_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (4,), \n",
                          "quoted word", "");
    assert_header_refused("", "lacks '{'", "");
}

static void assert_not_read(const char *name, const char *part)
{
    k3_error_t err = K3_ERROR_INIT;
    k3_npy_t   a;

    assert_int_equal(k3_npy_read(name, &a, &err), K3_ERR_IO);
    assert_null(a.data);
    assert_non_null(strstr(err.text, name));
    assert_non_null(strstr(err.text, part));
}

/* A pipe without a writer must not block. */
static void test_files_that_are_none(void **state)
{
    char pipe_name[80];

    (void)state;
    snprintf(pipe_name, sizeof(pipe_name), "%s/pipe", folder);
    assert_int_equal(mkfifo(pipe_name, 0600), 0);
    assert_not_read(pipe_name, "not a regular file");
    unlink(pipe_name);
    assert_not_read(folder, "not a regular file");
    assert_not_read("/dev/zero", "not a regular file");
    assert_not_read("/proc/nonexistent/trace.npy", "No such file");
}

static void test_write_failures(void **state)
{
    uint64_t    shape[5] = {UINT64_C(1) << 40, UINT64_C(1) << 40, 1, 1, 1}, one = 1;
    int32_t     data = 5;
    k3_error_t  err = K3_ERROR_INIT;
    struct stat info;

    (void)state;
    assert_int_equal(k3_npy_write(path, K3_NPY_I32, 2, shape, &data, &err), K3_ERR_USAGE);
    k3_error_clear(&err);
    assert_int_equal(k3_npy_write(path, K3_NPY_I32, 5, shape, &data, &err), K3_ERR_USAGE);
    assert_non_null(strstr(err.text, "5 dimensions"));
    k3_error_clear(&err);
    assert_int_equal(k3_npy_write("/proc/nonexistent/a.npy", K3_NPY_I32, 1, &one, &data, &err),
                     K3_ERR_IO);
    assert_non_null(strstr(err.text, "/proc/nonexistent/a.npy"));
    if (stat("/dev/full", &info) != 0 || !S_ISCHR(info.st_mode)) {
        return;
    }
    k3_error_clear(&err);
    assert_int_equal(k3_npy_write("/dev/full", K3_NPY_I32, 1, &one, &data, &err), K3_ERR_IO);
    assert_non_null(strstr(err.text, "No space"));
    assert_int_equal(stat("/dev/full", &info), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_written_bytes),
        cmocka_unit_test(test_large_shapes_round_trip),
        cmocka_unit_test(test_accepted_forms),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_bad_start),
        cmocka_unit_test(test_header_longer_than_file),
        cmocka_unit_test(test_header_longer_than_the_limit),
        cmocka_unit_test(test_shape_refusals),
        cmocka_unit_test(test_type_refusals),
        cmocka_unit_test(test_order_and_keys),
        cmocka_unit_test(test_files_that_are_none),
        cmocka_unit_test(test_write_failures),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
