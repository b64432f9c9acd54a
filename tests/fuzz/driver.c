/* Runs a fuzz target on a fixed stream of inputs: fuzz_NAME [INPUTS [SEED]]. The same two numbers
 * give the same inputs, and input i depends on SEED and i alone: fuzz_NAME -i I SEED runs just that
 * one. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "harness/base/keyed.h"
#include "tests/fuzz/fuzz.h"

enum { INPUT_BYTES = 4096, MAX_MUTATIONS = 8 };

typedef struct input {
    uint8_t  bytes[INPUT_BYTES];
    size_t   size;
    uint64_t key;
    uint64_t draws;
} input_t;

static uint64_t current_input;

static size_t draw(input_t *input, size_t n)
{
    return (size_t)k3_below(k3_key(input->key, input->draws++), n);
}

static size_t seed_count(void)
{
    size_t count = 0;

    while (fuzz_seeds[count] != NULL) {
        count++;
    }
    return count;
}

static void insert(input_t *input, size_t at, const void *bytes, size_t size)
{
    if (size > INPUT_BYTES - input->size) {
        return;
    }
    memmove(input->bytes + at + size, input->bytes + at, input->size - at);
    memcpy(input->bytes + at, bytes, size);
    input->size += size;
}

static void erase(input_t *input, size_t at, size_t size)
{
    memmove(input->bytes + at, input->bytes + at + size, input->size - at - size);
    input->size -= size;
}

/* A part of the input again, at another place, perhaps many times: deep nesting and long lines. */
static void repeat(input_t *input)
{
    uint8_t part[64];
    size_t  from = draw(input, input->size + 1);
    size_t  limit = input->size - from < sizeof(part) ? input->size - from : sizeof(part);
    size_t  size = draw(input, limit + 1);
    size_t  times = (size_t)1 << draw(input, 7);
    size_t  at = draw(input, input->size + 1);

    memcpy(part, input->bytes + from, size);
    for (size_t i = 0; i < times; i++) {
        insert(input, at, part, size);
    }
}

static void splice_seed(input_t *input)
{
    const char *seed = fuzz_seeds[draw(input, seed_count())];
    size_t      from = draw(input, strlen(seed) + 1);
    size_t      size = draw(input, strlen(seed) - from + 1);

    insert(input, draw(input, input->size + 1), seed + from, size);
}

static void insert_odd_byte(input_t *input)
{
    static const uint8_t odd[] = {0,   '\n', '\r', '"',  '\\', '=', '-',
                                  ' ', '[',  '{',  0x7f, 0x80, 0xff};

    insert(input, draw(input, input->size + 1), &odd[draw(input, sizeof(odd))], 1);
}

static void mutate(input_t *input)
{
    switch (draw(input, 6)) {
    case 0:
        repeat(input);
        break;
    case 1:
        splice_seed(input);
        break;
    case 2:
        insert_odd_byte(input);
        break;
    case 3: {
        size_t at = draw(input, input->size + 1);

        erase(input, at, draw(input, input->size - at + 1));
        break;
    }
    case 4:
        if (input->size > 0) {
            input->bytes[draw(input, input->size)] = (uint8_t)draw(input, 256);
        }
        break;
    default:
        if (input->size > 0) {
            input->bytes[draw(input, input->size)] ^= (uint8_t)(1u << draw(input, 8));
        }
        break;
    }
}

static void make_input(input_t *input, uint64_t seed, uint64_t i)
{
    input->key = k3_key(seed, i);
    input->draws = 0;
    input->size = 0;

    const char *start = fuzz_seeds[draw(input, seed_count())];
    size_t      mutations = i < seed_count() ? 0 : 1 + draw(input, MAX_MUTATIONS);

    if (mutations == 0) { /* every seed once as it is */
        start = fuzz_seeds[i];
    }
    insert(input, 0, start, strlen(start));
    for (size_t m = 0; m < mutations; m++) {
        mutate(input);
    }
}

static void say_which(int signal_number)
{
    char text[64];
    int  length = snprintf(text, sizeof(text), "fuzz: died in input %" PRIu64 "\n", current_input);

    (void)!write(STDERR_FILENO, text, length > 0 ? (size_t)length : 0);
    (void)signal(signal_number, SIG_DFL);
    (void)raise(signal_number);
}

int main(int argc, char **argv)
{
    bool     single = argc == 4 && strcmp(argv[1], "-i") == 0;
    uint64_t inputs = argc > 1 ? strtoull(argv[argc > 3 ? 2 : 1], NULL, 10) : 10000;
    uint64_t seed = argc > 2 ? strtoull(argv[argc > 3 ? 3 : 2], NULL, 10) : 1;
    uint64_t first = single ? inputs : 0;
    uint64_t last = single ? inputs + 1 : inputs;

    (void)signal(SIGABRT, say_which);
    (void)signal(SIGSEGV, say_which);
    for (uint64_t i = first; i < last; i++) {
        static input_t input;

        current_input = i;
        make_input(&input, seed, i);

        /* A block of the exact size, so that the sanitizer sees a read past the end. */
        uint8_t *copy = malloc(input.size > 0 ? input.size : 1);

        if (copy == NULL) {
            return 1;
        }
        memcpy(copy, input.bytes, input.size);
        (void)LLVMFuzzerTestOneInput(copy, input.size);
        free(copy);
    }
    (void)printf("%" PRIu64 " inputs\n", last - first);
    return 0;
}
