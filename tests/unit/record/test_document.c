/* Documents: exclusive writing, strict reading, numbers and strings. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>
#include <dirent.h>

#include "harness/record/document.h"
#include "harness/record/json_values.h"

static char folder[64];
static bool links_forbidden, name_is_snatched;

static void write_text(const char *path, const char *text, size_t size)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Stands in front of the C library's, so that a file system without hard links can be played, and
 * another program that takes the name at the last moment. */
int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    if (name_is_snatched) {
        write_text(to, "precious", 8);
    }
    if (links_forbidden) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
}

int link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

static const char *path_of(const char *name)
{
    static char path[512];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    links_forbidden = false;
    name_is_snatched = false;
    (void)snprintf(folder, sizeof(folder), "/tmp/k3-test-document-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

/* Removes what the test wrote; anything but plain files makes rmdir, and so the test, fail. */
static int remove_folder(void **state)
{
    DIR *dir = opendir(folder);

    (void)state;
    if (dir == NULL) {
        return -1;
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            (void)unlink(path_of(entry->d_name));
        }
    }
    closedir(dir);
    return rmdir(folder);
}

static int count_files(void)
{
    DIR *dir = opendir(folder);
    int  count = -2;

    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

static void expect_text(const char *path, const char *text)
{
    char   got[4096];
    FILE  *file = fopen(path, "r");
    size_t size;

    assert_non_null(file);
    size = fread(got, 1, sizeof(got) - 1, file);
    got[size] = '\0';
    fclose(file);
    assert_string_equal(got, text);
}

static json_t *sample(void)
{
    json_t *document = json_object();

    json_object_set_new(document, "schema", json_string("k3bench.test/1"));
    json_object_set_new(document, "time", k3_json_number(1.0 / 3));
    json_object_set_new(document, "rows", json_integer(8));
    return document;
}

static const char sample_text[] =
    "{\n \"schema\": \"k3bench.test/1\",\n \"time\": 0.333333333,\n \"rows\": 8\n}\n";

/* --- values ---------------------------------------------------------------------------------- */

static void test_numbers_that_are_none_become_null(void **state)
{
    const double bad[] = {NAN, -NAN, INFINITY, -INFINITY};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        json_t *value = k3_json_number(bad[i]);

        assert_true(json_is_null(value));
        json_decref(value);
    }
}

static void expect_dump(double value, const char *text)
{
    json_t *number = k3_json_number(value);
    char   *got = json_dumps(number, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));

    assert_non_null(got);
    assert_string_equal(got, text);
    free(got);
    json_decref(number);
}

static void test_numbers_have_nine_digits(void **state)
{
    json_t *third = k3_json_number(1.0 / 3);

    (void)state;
    assert_true(json_real_value(third) == 0.333333333);
    json_decref(third);
    expect_dump(0.1, "0.1");
    expect_dump(0.1 + 0.2, "0.3");
    expect_dump(123456789.4, "123456789.0");
    expect_dump(1e-300, "1e-300");
    expect_dump(1.7976931348623157e308, "1.79769313e308");
    expect_dump(-0.0, "0.0");
    expect_dump(5, "5.0");
}

static void check_string(const char *text, const char *wanted)
{
    json_t *string = k3_json_string(text);

    assert_true(json_is_string(string));
    assert_string_equal(json_string_value(string), wanted);
    json_decref(string);
}

static void test_strings(void **state)
{
    json_t *nothing = k3_json_string(NULL);

    (void)state;
    assert_true(json_is_null(nothing));
    json_decref(nothing);
    check_string("", "");
    check_string("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
                 "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
    check_string("a\xff"
                 "b",
                 "a?b");
    check_string("a\xc3", "a?");              /* cut sequence */
    check_string("\xc3(", "?(");              /* wrong second byte */
    check_string("\xc0\xaf", "??");           /* overlong */
    check_string("\xe0\x80\xaf", "???");      /* overlong */
    check_string("\xed\xa0\x80", "???");      /* surrogate */
    check_string("\xf4\x90\x80\x80", "????"); /* above U+10FFFF */
    check_string("\xf0\x9f\x98", "???");      /* cut sequence */
    check_string("\xed\x9f\xbf\xf4\x8f\xbf\xbf", "\xed\x9f\xbf\xf4\x8f\xbf\xbf");
}

/* Every pair of bytes must give something that jansson takes. */
static void test_any_bytes_make_a_string(void **state)
{
    (void)state;
    for (int a = 1; a < 256; a++) {
        for (int b = 1; b < 256; b++) {
            const char text[] = {(char)a, (char)b, (char)0x80, (char)0xbf, 'x', '\0'};
            json_t    *string = k3_json_string(text);

            assert_non_null(string);
            assert_int_equal(json_string_length(string), 5);
            json_decref(string);
        }
    }
}

static void test_list_of_strings(void **state)
{
    static const char *const texts[] = {"a", NULL, "b"};
    json_t                  *list = k3_json_list_of_strings(texts, 3);

    (void)state;
    assert_int_equal(json_array_size(list), 3);
    assert_string_equal(json_string_value(json_array_get(list, 0)), "a");
    assert_true(json_is_null(json_array_get(list, 1)));
    json_decref(list);
    list = k3_json_list_of_strings(NULL, 0);
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
}

/* --- writing --------------------------------------------------------------------------------- */

static void test_write_leaves_one_whole_file(void **state)
{
    json_t     *document = sample();
    json_t     *back = NULL;
    k3_error_t  err = K3_ERROR_INIT;
    struct stat facts;

    (void)state;
    umask(022);
    assert_int_equal(k3_document_write(document, path_of("a.json"), &err), K3_OK);
    assert_int_equal(count_files(), 1);
    expect_text(path_of("a.json"), sample_text);
    assert_int_equal(stat(path_of("a.json"), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0644);
    assert_int_equal(facts.st_nlink, 1);
    assert_int_equal(k3_document_read(path_of("a.json"), &back, &err), K3_OK);
    assert_true(json_equal(document, back) == 1);
    json_decref(back);
    json_decref(document);
}

static void expect_existing_kept(void)
{
    json_t    *document = sample();
    k3_error_t err = K3_ERROR_INIT;
    char       target[512];

    write_text(path_of("old.json"), "precious", 8);
    assert_int_equal(k3_document_write(document, path_of("old.json"), &err), K3_ERR_IO);
    assert_non_null(strstr(err.text, "old.json: exists already"));
    expect_text(path_of("old.json"), "precious");
    k3_error_clear(&err);
    assert_int_equal(k3_document_check_path(path_of("old.json"), &err), K3_ERR_IO);
    k3_error_clear(&err);

    /* A link that points nowhere is a name that is taken, too. */
    (void)snprintf(target, sizeof(target), "%s", path_of("nowhere"));
    assert_int_equal(symlink(target, path_of("dangling.json")), 0);
    assert_int_equal(k3_document_write(document, path_of("dangling.json"), &err), K3_ERR_IO);
    assert_int_equal(count_files(), 2);
    json_decref(document);
}

static void test_U03_existing_path_is_refused(void **state)
{
    (void)state;
    expect_existing_kept();
}

static void test_U03_without_hard_links(void **state)
{
    json_t    *document = sample();
    k3_error_t err = K3_ERROR_INIT;

    (void)state;
    links_forbidden = true;
    assert_int_equal(k3_document_write(document, path_of("a.json"), &err), K3_OK);
    expect_text(path_of("a.json"), sample_text);
    assert_int_equal(count_files(), 1);
    assert_int_equal(unlink(path_of("a.json")), 0);
    expect_existing_kept();
    json_decref(document);
}

static void test_U03_name_taken_while_writing(void **state)
{
    json_t *document = sample();

    (void)state;
    name_is_snatched = true;
    for (int i = 0; i < 2; i++) {
        k3_error_t err = K3_ERROR_INIT;

        links_forbidden = i == 1;
        assert_int_equal(k3_document_write(document, path_of("a.json"), &err), K3_ERR_IO);
        assert_non_null(strstr(err.text, "a.json: exists already"));
        expect_text(path_of("a.json"), "precious");
        assert_int_equal(count_files(), 1);
        assert_int_equal(unlink(path_of("a.json")), 0);
    }
    json_decref(document);
}

static void expect_unwritable(const char *path, const char *text)
{
    json_t    *document = sample();
    k3_error_t err = K3_ERROR_INIT;

    assert_int_equal(k3_document_check_path(path, &err), K3_ERR_IO);
    assert_non_null(strstr(err.text, text));
    k3_error_clear(&err);
    assert_int_equal(k3_document_write(document, path, &err), K3_ERR_IO);
    assert_non_null(strstr(err.text, text));
    json_decref(document);
}

/* The tests may run as root, whom no mode bits stop; /proc does. */
static void test_unwritable_folder(void **state)
{
    char longer[400];

    (void)state;
    expect_unwritable(path_of("missing/a.json"),
                      "missing/a.json: its folder cannot be written: No such");
    expect_unwritable("/proc/k3bench.json", "/proc/k3bench.json: its folder cannot be written");
    expect_unwritable("", "names no file");
    expect_unwritable(path_of("missing/"), "names no file");
    write_text(path_of("file"), "x", 1);
    expect_unwritable(path_of("file/a.json"), "Not a directory");
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    expect_unwritable(path_of(longer), "File name too long");
    if (geteuid() != 0) {
        assert_int_equal(chmod(folder, 0500), 0);
        expect_unwritable(path_of("a.json"), "Permission denied");
        assert_int_equal(chmod(folder, 0700), 0);
    }
}

static void test_longest_name(void **state)
{
    json_t    *document = sample();
    k3_error_t err = K3_ERROR_INIT;
    char       name[256];

    (void)state;
    memset(name, 'a', 255);
    name[255] = '\0';
    assert_int_equal(k3_document_write(document, path_of(name), &err), K3_OK);
    json_decref(document);
}

static void test_check_path_leaves_nothing(void **state)
{
    k3_error_t err = K3_ERROR_INIT;

    (void)state;
    assert_int_equal(k3_document_check_path(path_of("new.json"), &err), K3_OK);
    assert_int_equal(count_files(), 0);
    assert_int_equal(k3_document_check_path("-", &err), K3_OK);
}

static void test_relative_path(void **state)
{
    json_t    *document = sample();
    k3_error_t err = K3_ERROR_INIT;
    char       old[4096];

    (void)state;
    assert_non_null(getcwd(old, sizeof(old)));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(k3_document_write(document, "a.json", &err), K3_OK);
    assert_int_equal(chdir(old), 0);
    expect_text(path_of("a.json"), sample_text);
    json_decref(document);
}

static void test_write_to_stdout(void **state)
{
    json_t    *document = sample();
    k3_error_t err = K3_ERROR_INIT;
    int        saved = dup(STDOUT_FILENO);
    int        fd = open(path_of("out"), O_WRONLY | O_CREAT | O_EXCL, 0600);

    (void)state;
    assert_true(saved >= 0 && fd >= 0);
    fflush(stdout);
    assert_true(dup2(fd, STDOUT_FILENO) >= 0);

    k3_status_t status = k3_document_write(document, "-", &err);

    assert_true(dup2(saved, STDOUT_FILENO) >= 0);
    close(saved);
    close(fd);
    assert_int_equal(status, K3_OK);
    expect_text(path_of("out"), sample_text);
    json_decref(document);
}

static void test_full_device(void **state)
{
    json_t    *document = sample();
    k3_error_t err = K3_ERROR_INIT;
    int        saved = dup(STDOUT_FILENO);
    int        fd = open("/dev/full", O_WRONLY);

    (void)state;
    if (fd < 0) {
        json_decref(document);
        close(saved);
        skip();
        return;
    }
    fflush(stdout);
    assert_true(dup2(fd, STDOUT_FILENO) >= 0);

    k3_status_t status = k3_document_write(document, "-", &err);

    clearerr(stdout);
    assert_true(dup2(saved, STDOUT_FILENO) >= 0);
    close(saved);
    close(fd);
    assert_int_equal(status, K3_ERR_IO);
    assert_non_null(strstr(err.text, "standard output"));
    json_decref(document);
}

static void test_same_document_same_bytes(void **state)
{
    json_t    *document = sample();
    k3_error_t err = K3_ERROR_INIT;

    (void)state;
    assert_int_equal(k3_document_write(document, path_of("a"), &err), K3_OK);
    assert_int_equal(k3_document_write(document, path_of("b"), &err), K3_OK);
    expect_text(path_of("a"), sample_text);
    expect_text(path_of("b"), sample_text);
    json_decref(document);
}

/* --- reading --------------------------------------------------------------------------------- */

static void expect_read_refused(const char *text, size_t size, const char *place)
{
    json_t    *document = NULL;
    k3_error_t err = K3_ERROR_INIT;

    write_text(path_of("in.json"), text, size);
    assert_int_equal(k3_document_read(path_of("in.json"), &document, &err), K3_ERR_IO);
    assert_null(document);
    if (strstr(err.text, place) == NULL) {
        fail_msg("'%s' is not in '%s'", place, err.text);
    }
}

static void refuse(const char *text, const char *place)
{
    expect_read_refused(text, strlen(text), place);
}

static void test_reading_is_strict(void **state)
{
    (void)state;
    refuse("{\"a\": 1,\n \"a\": 2}", "in.json:2:");
    refuse("{\"a\": 1} x", "in.json:1:10");
    refuse("{\"a\": 1}{}", "in.json:1:");
    refuse("{\"a\": NaN}", "in.json:1:");
    refuse("{\"a\": -Infinity}", "in.json:1:");
    refuse("{\"a\": 1e999}", "in.json:1:");
    refuse("{\"a\": 99999999999999999999}", "in.json:1:");
    refuse("{\"a\": 1,}", "in.json:1:");
    refuse("{\"a\": 1", "in.json:1:");
    refuse("{\"a\": \"\xff\"}", "in.json:1:");
    refuse("", "in.json:1:0");
    refuse("17", "in.json:1:");
    expect_read_refused("{}\0", 3, "in.json:1:");
}

static void test_deep_nesting_is_refused(void **state)
{
    static char text[200001];

    (void)state;
    memset(text, '[', sizeof(text) - 1);
    refuse(text, "in.json:1:");
}

static void test_reading_what_is_no_file(void **state)
{
    json_t    *document = NULL;
    k3_error_t err = K3_ERROR_INIT;

    (void)state;
    assert_int_equal(k3_document_read(path_of("none"), &document, &err), K3_ERR_IO);
    assert_non_null(strstr(err.text, "none: cannot be read: No such file"));
    k3_error_clear(&err);
    assert_int_equal(k3_document_read(folder, &document, &err), K3_ERR_IO);
    assert_non_null(strstr(err.text, "cannot be read: Is a directory"));
    assert_null(document);
}

/* A file with a hole: large by its size alone. */
static void test_more_than_a_gigabyte_is_refused(void **state)
{
    json_t    *document = NULL;
    k3_error_t err = K3_ERROR_INIT;

    (void)state;
    write_text(path_of("big"), "{}", 2);
    assert_int_equal(truncate(path_of("big"), (off_t)((UINT64_C(1) << 30) + 1)), 0);
    assert_int_equal(k3_document_read(path_of("big"), &document, &err), K3_ERR_IO);
    assert_non_null(strstr(err.text, "more than 1073741824 bytes"));
    assert_null(document);
}

#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_that_are_none_become_null),
        cmocka_unit_test(test_numbers_have_nine_digits),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_any_bytes_make_a_string),
        cmocka_unit_test(test_list_of_strings),
        FILE_TEST(test_write_leaves_one_whole_file),
        FILE_TEST(test_U03_existing_path_is_refused),
        FILE_TEST(test_U03_without_hard_links),
        FILE_TEST(test_U03_name_taken_while_writing),
        FILE_TEST(test_unwritable_folder),
        FILE_TEST(test_longest_name),
        FILE_TEST(test_check_path_leaves_nothing),
        FILE_TEST(test_relative_path),
        FILE_TEST(test_write_to_stdout),
        FILE_TEST(test_full_device),
        FILE_TEST(test_same_document_same_bytes),
        FILE_TEST(test_reading_is_strict),
        FILE_TEST(test_deep_nesting_is_refused),
        FILE_TEST(test_reading_what_is_no_file),
        FILE_TEST(test_more_than_a_gigabyte_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
