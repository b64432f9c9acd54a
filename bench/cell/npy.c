#include "bench/cell/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/base/arith.h"
#include "harness/base/file.h"
#include "harness/base/memory.h"

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* Longer headers belong to structured types, which are refused anyway. */
enum { HEADER_MAX = 4096, WORD_MAX = 32 };

static const struct {
    const char *descr;
    uint64_t    size;
} types[] = {
    [K3_NPY_I32] = {"<i4", 4}, [K3_NPY_I64] = {"<i8", 8}, [K3_NPY_F32] = {"<f4", 4},
    [K3_NPY_U8] = {"|u1", 1},  [K3_NPY_U16] = {"<u2", 2}, [K3_NPY_F16] = {"<f2", 2},
};

enum { TYPE_COUNT = sizeof(types) / sizeof(types[0]) };

/* --- the header: a Python dictionary of three known keys ------------------------------------- */

typedef struct header {
    const char *file; /* name for messages */
    const char *at, *end;
    k3_npy_t   *array;
    k3_error_t *err;
} header_t;

static k3_status_t refuse(const header_t *h, const char *what)
{
    return k3_fail(h->err, K3_ERR_USAGE, "%s: not a readable .npy file: %s", h->file, what);
}

static void skip_blanks(header_t *h)
{
    while (h->at < h->end && (*h->at == ' ' || *h->at == '\n' || *h->at == '\t')) {
        h->at++;
    }
}

static bool accept(header_t *h, const char *word)
{
    size_t length = strlen(word);

    skip_blanks(h);
    if ((size_t)(h->end - h->at) < length || memcmp(h->at, word, length) != 0) {
        return false;
    }
    h->at += length;
    return true;
}

static k3_status_t expect(header_t *h, const char *word)
{
    if (!accept(h, word)) {
        return k3_fail(h->err, K3_ERR_USAGE,
                       "%s: not a readable .npy file: the header lacks '%s' where it is needed",
                       h->file, word);
    }
    return K3_OK;
}

static bool is_plain(char c)
{
    return c >= ' ' && c <= '~';
}

/* A quoted word without escapes. */
static k3_status_t read_word(header_t *h, char word[WORD_MAX])
{
    size_t length = 0;
    char   quote = '\'';

    if (!accept(h, "'")) {
        quote = '"';
        if (!accept(h, "\"")) {
            return refuse(h, "the header lacks a quoted word where one is needed (a structured "
                             "element type, or damage)");
        }
    }
    while (h->at < h->end && *h->at != quote && length < WORD_MAX - 1 && is_plain(*h->at)) {
        word[length++] = *h->at++;
    }
    word[length] = '\0';
    if (h->at == h->end || *h->at != quote) {
        return refuse(h, "a word of the header has no end");
    }
    h->at++;
    return K3_OK;
}

static k3_status_t read_type(header_t *h)
{
    char        descr[WORD_MAX];
    const char *why = "not one of";
    k3_status_t status = read_word(h, descr);

    if (status != K3_OK) {
        return status;
    }
    for (unsigned t = 0; t < TYPE_COUNT; t++) {
        if (strcmp(descr, types[t].descr) == 0) {
            h->array->type = (k3_npy_type_t)t;
            return K3_OK;
        }
    }
    if (descr[0] == '>') {
        why = "big endian, not one of";
    } else if (strchr(descr, 'O') != NULL) {
        why = "Python objects, not one of";
    }
    return k3_fail(h->err, K3_ERR_USAGE, "%s: element type '%s' is %s <i4, <i8, <f4, |u1, <u2, <f2",
                   h->file, descr, why);
}

static k3_status_t read_order(header_t *h)
{
    if (accept(h, "False")) {
        return K3_OK;
    }
    if (accept(h, "True")) {
        return k3_fail(h->err, K3_ERR_USAGE,
                       "%s: fortran_order True (only C order is read; save "
                       "numpy.ascontiguousarray of it)",
                       h->file);
    }
    return refuse(h, "fortran_order is neither True nor False");
}

static k3_status_t read_size(header_t *h, uint64_t *size)
{
    const char *start;
    uint64_t    value = 0;

    skip_blanks(h);
    start = h->at;
    while (h->at < h->end && *h->at >= '0' && *h->at <= '9') {
        value = k3_add(k3_mul(value, 10), (uint64_t)(*h->at++ - '0'));
    }
    if (h->at == start) {
        return refuse(h, h->at < h->end && *h->at == '-' ? "the shape has a negative number"
                                                         : "the shape lacks a number");
    }
    if (value > INT64_MAX) {
        return refuse(h, "a number of the shape does not fit 63 bits");
    }
    *size = value;
    return K3_OK;
}

static k3_status_t read_shape(header_t *h)
{
    unsigned dims = 0;
    bool     comma = true;

    if (expect(h, "(") != K3_OK) {
        return K3_ERR_USAGE;
    }
    while (!accept(h, ")")) {
        if (!comma || dims == K3_NPY_DIMS) {
            return refuse(h, comma ? "the shape has more than 4 dimensions"
                                   : "the shape lacks a comma or a closing parenthesis");
        }
        if (read_size(h, &h->array->shape[dims]) != K3_OK) {
            return K3_ERR_USAGE;
        }
        dims++;
        comma = accept(h, ",");
    }
    if (dims == 1 && !comma) {
        return refuse(h, "the shape is a number, not a tuple");
    }
    h->array->dims = dims;
    return K3_OK;
}

static k3_status_t read_entry(header_t *h, bool seen[3])
{
    static const char *const names[] = {"descr", "fortran_order", "shape"};
    static k3_status_t (*const readers[])(header_t *) = {read_type, read_order, read_shape};
    char word[WORD_MAX];

    if (read_word(h, word) != K3_OK || expect(h, ":") != K3_OK) {
        return K3_ERR_USAGE;
    }
    for (unsigned i = 0; i < 3; i++) {
        if (strcmp(word, names[i]) == 0 && !seen[i]) {
            seen[i] = true;
            return readers[i](h);
        }
    }
    return k3_fail(h->err, K3_ERR_USAGE,
                   "%s: not a readable .npy file: header key '%s' is unknown or given twice",
                   h->file, word);
}

static k3_status_t parse_header(header_t *h)
{
    bool seen[3] = {false, false, false};
    bool comma = true;

    if (expect(h, "{") != K3_OK) {
        return K3_ERR_USAGE;
    }
    while (!accept(h, "}")) {
        if (!comma) {
            return refuse(h, "the header lacks a comma or a closing brace");
        }
        if (read_entry(h, seen) != K3_OK) {
            return K3_ERR_USAGE;
        }
        comma = accept(h, ",");
    }
    if (!seen[0] || !seen[1] || !seen[2]) {
        return refuse(h, "the header lacks one of descr, fortran_order, shape");
    }
    skip_blanks(h);
    return h->at == h->end ? K3_OK : refuse(h, "something follows the header's dictionary");
}

/* --- reading --------------------------------------------------------------------------------- */

/* Exactly `n` bytes; a file that ends early is malformed, one that fails is an I/O error. */
static k3_status_t read_bytes(const header_t *h, FILE *file, void *to, uint64_t n, const char *what)
{
    if (fread(to, 1, n, file) == n) {
        return K3_OK;
    }
    if (ferror(file)) {
        return k3_fail(h->err, K3_ERR_IO, "%s: cannot read: %s", h->file, strerror(errno));
    }
    return k3_fail(h->err, K3_ERR_USAGE, "%s: not a readable .npy file: it ends within %s", h->file,
                   what);
}

/* Magic, version and length; *left: bytes of the file after the header. */
static k3_status_t read_header(header_t *h, FILE *file, char text[HEADER_MAX], uint64_t *left)
{
    unsigned char start[12];
    uint64_t      length, prefix;
    k3_status_t   status = read_bytes(h, file, start, 8, "the magic");

    if (status != K3_OK) {
        return status;
    }
    if (memcmp(start, magic, sizeof(magic)) != 0) {
        return refuse(h, "it does not start with the magic \\x93NUMPY");
    }
    if ((start[6] != 1 && start[6] != 2) || start[7] != 0) {
        return k3_fail(h->err, K3_ERR_USAGE, "%s: .npy version %u.%u (1.0 and 2.0 are read)",
                       h->file, start[6], start[7]);
    }
    prefix = start[6] == 1 ? 10 : 12;
    status = read_bytes(h, file, start + 8, prefix - 8, "the header length");
    if (status != K3_OK) {
        return status;
    }
    length = start[8] | (unsigned)start[9] << 8;
    length |= start[6] == 1 ? 0 : (uint64_t)start[10] << 16 | (uint64_t)start[11] << 24;
    if (length > *left - prefix || length > HEADER_MAX) {
        return k3_fail(h->err, K3_ERR_USAGE,
                       "%s: not a readable .npy file: a header of %" PRIu64 " bytes (%" PRIu64
                       " follow in the file, at most %d are read)",
                       h->file, length, *left - prefix, HEADER_MAX);
    }
    *left -= prefix + length;
    h->at = text;
    h->end = text + length;
    return read_bytes(h, file, text, length, "the header");
}

static uint64_t data_bytes(k3_npy_type_t type, unsigned dims, const uint64_t *shape)
{
    uint64_t bytes = types[type].size;

    for (unsigned d = 0; d < dims; d++) {
        bytes = k3_mul(bytes, shape[d]);
    }
    return bytes;
}

static k3_status_t read_data(const header_t *h, FILE *file, uint64_t left)
{
    k3_npy_t *a = h->array;
    uint64_t  bytes = data_bytes(a->type, a->dims, a->shape);

    if (bytes == K3_TOO_BIG) {
        return refuse(h, "the shape's product does not fit 64 bits");
    }
    if (bytes != left) {
        return k3_fail(h->err, K3_ERR_USAGE,
                       "%s: %s: %" PRIu64 " bytes of data where the shape needs %" PRIu64, h->file,
                       left < bytes ? "truncated" : "too long", left, bytes);
    }
    k3_status_t status = k3_alloc("array of a .npy file", bytes, 1, &a->data, h->err);

    return status != K3_OK ? status : read_bytes(h, file, a->data, bytes, "the data");
}

k3_status_t k3_npy_read_stream(FILE *file, const char *name, k3_npy_t *array, k3_error_t *err)
{
    header_t    h = {.file = name, .array = array, .err = err};
    char        text[HEADER_MAX];
    off_t       size = -1;
    uint64_t    left;
    k3_status_t status;

    memset(array, 0, sizeof(*array));
    if (fseeko(file, 0, SEEK_END) == 0) {
        size = ftello(file);
    }
    if (size < 0 || fseeko(file, 0, SEEK_SET) != 0) {
        return k3_fail(err, K3_ERR_IO, "%s: cannot read: %s", name, strerror(errno));
    }
    left = (uint64_t)size;
    status = read_header(&h, file, text, &left);
    if (status == K3_OK) {
        status = parse_header(&h);
    }
    if (status == K3_OK) {
        status = read_data(&h, file, left);
    }
    if (status != K3_OK) {
        k3_npy_free(array);
    }
    return status;
}

k3_status_t k3_npy_read(const char *path, k3_npy_t *array, k3_error_t *err)
{
    FILE       *file;
    k3_status_t status;
    int         fd;

    memset(array, 0, sizeof(*array));
    if (k3_file_open(path, &fd, err) != K3_OK) {
        return err->status;
    }
    file = fdopen(fd, "rb");
    if (file == NULL) {
        k3_fail(err, K3_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
        close(fd);
        return err->status;
    }
    status = k3_npy_read_stream(file, path, array, err);
    fclose(file);
    return status;
}

void k3_npy_free(k3_npy_t *array)
{
    k3_free(array->data);
    memset(array, 0, sizeof(*array));
}

/* --- writing --------------------------------------------------------------------------------- */

/* The longest header: 4 numbers of 20 digits and the fixed words stay below two blocks of 64. */
static size_t compose_header(k3_npy_type_t type, unsigned dims, const uint64_t *shape,
                             char header[256])
{
    int    n = snprintf(header + 10, 246, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                        types[type].descr);
    size_t length = 10 + (size_t)n, whole;

    for (unsigned d = 0; d < dims; d++) {
        n = snprintf(header + length, 256 - length, "%s%" PRIu64 "%s", d > 0 ? ", " : "", shape[d],
                     dims == 1 ? "," : "");
        length += (size_t)n;
    }
    n = snprintf(header + length, 256 - length, "), }");
    length += (size_t)n;
    whole = k3_round_up(length + 1, 64);
    memset(header + length, ' ', whole - length);
    header[whole - 1] = '\n';
    memcpy(header, magic, sizeof(magic));
    header[6] = 1;
    header[7] = 0;
    header[8] = (char)((whole - 10) & 0xff);
    header[9] = (char)((whole - 10) >> 8);
    return whole;
}

/* False with errno set. What is left of a file that could not be completed is removed, but never a
 * device. */
static bool write_parts(const char *path, FILE *file, const char *header, size_t length,
                        const void *data, uint64_t bytes)
{
    struct stat info;
    bool        regular = fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode);
    bool        done = fwrite(header, 1, length, file) == length &&
                (bytes == 0 || fwrite(data, 1, bytes, file) == bytes);
    int fault = errno;

    if (fclose(file) != 0 && done) {
        done = false;
        fault = errno;
    }
    if (!done && regular) {
        unlink(path);
    }
    errno = fault;
    return done;
}

k3_status_t k3_npy_write(const char *path, k3_npy_type_t type, unsigned dims, const uint64_t *shape,
                         const void *data, k3_error_t *err)
{
    uint64_t bytes = dims <= K3_NPY_DIMS ? data_bytes(type, dims, shape) : K3_TOO_BIG;
    char     header[256];
    FILE    *file;

    if (bytes == K3_TOO_BIG) {
        return k3_fail(err, K3_ERR_USAGE,
                       "%s: an array of %u dimensions cannot be written (at most %d, and a size "
                       "that fits 64 bits)",
                       path, dims, K3_NPY_DIMS);
    }
    file = fopen(path, "wbe");
    if (file == NULL) {
        return k3_fail(err, K3_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    }
    if (!write_parts(path, file, header, compose_header(type, dims, shape, header), data, bytes)) {
        return k3_fail(err, K3_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    }
    return K3_OK;
}
