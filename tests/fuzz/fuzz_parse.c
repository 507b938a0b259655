/* Fuzzing the parsers: whatever is accepted must be within what they promise. */
#include "fuzz.h"

#include "base/parse.h"

#include <stdlib.h>
#include <string.h>

const uint64_t fuzz_iterations = 1000000;

static void require(bool right)
{
    if (!right)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct quota_list list;
    struct quota quota;
    uint64_t bytes;

    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    if (parse_bytes(text, &bytes) == 0) {
        require(bytes > 0 && bytes <= INT64_MAX);
        require(text[0] >= '0' && text[0] <= '9');
    }
    if (parse_quota_loosely(text, &quota) == 0)
        require((quota.bytes == 0) != (quota.percent == 0) && quota.percent <= 100);
    if (parse_quota_list(text, &list) == 0) {
        for (unsigned i = 0; i < QUOTA_DEVICES_MAX; i++) {
            quota = quota_list_device(&list, i);
            require(quota.bytes == 0 || quota.percent == 0);
        }
        require(list.given < 1u << QUOTA_DEVICES_MAX);
    }
    if (parse_percent_list(text, &list) == 0) {
        for (unsigned i = 0; i < QUOTA_DEVICES_MAX; i++) {
            quota = quota_list_device(&list, i);
            require(quota.bytes == 0 && quota.percent <= 100);
            require(quota.percent > 0 || (list.given && !(list.given & 1u << i)));
        }
    }
    if (parse_count(text, 3, 77, &bytes) == 0)
        require(bytes >= 3 && bytes <= 77);
    if (parse_name_valid(text))
        require(strlen(text) <= 63 && !strchr(text, '/') && text[0] != '.');
    free(text);
    return 0;
}

/* Pieces of what is accepted, with a byte changed now and then. */
size_t fuzz_make(uint64_t i, uint8_t *input, size_t size, uint64_t (*random)(void))
{
    static const char *const pieces[] = {
        "0",
        "1",
        "7",
        "16",
        "100",
        "1024",
        "18446744073709551615",
        "9223372036854775808",
        ".5",
        ".",
        "k",
        "M",
        "Gi",
        "TB",
        "KB",
        "%",
        ":",
        ",",
        "-",
        "+",
        "0x1f",
        "010",
        " ",
        "a",
        "/",
        "_",
    };

    (void)i;
    size = 0;
    for (uint64_t count = random() % 8; count; count--) {
        const char *piece = pieces[random() % (sizeof(pieces) / sizeof(pieces[0]))];

        memcpy(input + size, piece, strlen(piece));
        size += strlen(piece);
    }
    if (size && random() % 4 == 0)
        input[random() % size] = (uint8_t)random();
    return size;
}
