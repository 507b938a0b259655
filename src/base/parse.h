/*
 * What people write: sizes, percentages, lists of them, counts; and sizes and times as people read
 * them.
 *
 * Nothing is guessed: text is taken whole or refused. Numbers that are no sizes: -EINVAL; -ERANGE
 * where it is a number that does not fit. Sizes, quotas and lists: a negative parse_fault.
 */
#ifndef VGPU_BASE_PARSE_H
#define VGPU_BASE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUOTA_DEVICES_MAX 16

/* The forms that sizes have, for help texts and messages. */
#define SIZE_FORMS "use a size (8G, 512M, 1.5G) or a percentage (40%)"

/* What is wrong with a text: X(enum suffix, the end of a message that begins with the text). */
#define PARSE_FAULT_LIST(X)                                                                        \
    X(EMPTY, "the value is empty")                                                                 \
    X(FORM, "not a size; use 8G, 512M, 1.5G or 8GiB")                                              \
    X(NEGATIVE, "a size cannot be negative")                                                       \
    X(ZERO, "a size cannot be zero; leave it out for no limit")                                    \
    X(FRACTION, "not a whole number of bytes; use a smaller unit")                                 \
    X(LARGE, "more than 8 EiB, the most that there can be")                                        \
    X(PERCENT, "a percentage is a whole number from 1 to 100")                                     \
    X(DEVICE, "a device is a number from 0 to 15: 0:8G,1:4G")                                      \
    X(TWICE, "a device is named twice")                                                            \
    X(TWO_FOR_ALL, "two values for every device; one for each is 0:8G,1:4G")                       \
    X(ITEM, "nothing stands before or after a comma")

enum parse_fault {
    PARSE_OK,
#define X(id, text) PARSE_##id,
    PARSE_FAULT_LIST(X)
#undef X
        PARSE_FAULTS
};

/* What a negative parse_fault means, for a message: "<option> <text>: <this>". */
const char *parse_fault_text(int rc);

/* A decimal number without sign, space or leading zeros beside "0" itself, min <= number <= max. */
int parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret_count);

/*
 * Bytes: `1073741824`, `8G`, `8g`, `8GiB`, `8Gi`, `8GB`, `8192m`, `1.5G`; every unit is a power of
 * 1024. A fraction must be a whole number of bytes. 1..INT64_MAX: zero is -PARSE_ZERO.
 */
int parse_bytes(const char *text, uint64_t *ret_bytes);

/* One quota: bytes, or a percentage of the device (`40%`, 1..100). Exactly one of the two is not
 * 0. */
struct quota {
    uint64_t bytes;
    uint32_t percent;
};
int parse_quota(const char *text, struct quota *ret_quota);

/* The same, and what strtoul() takes with a base of 0 besides: blanks and a '+' before it,
 * hexadecimal, octal. */
int parse_quota_loosely(const char *text, struct quota *ret_quota);

/*
 * A list: `8G` or `40%` for every device, `0:8G,1:4G` by the instance's device index, or both
 * (`8G,1:4G`: 8G except for device 1). An index twice, or two quotas for every device, are refused.
 */
struct quota_list {
    struct quota everywhere; /* 0, 0: not given */
    uint32_t given;          /* bit i: device[i] was given by index */
    struct quota device[QUOTA_DEVICES_MAX];
};
int parse_quota_list(const char *text, struct quota_list *ret_list);

/* A share: `30` or `30%`, 1..100. -ERANGE: another number, such as 0. */
int parse_percent(const char *text, uint32_t *ret_percent);

/* The same list of shares: `30`, `0:30,1:50`. Every `percent` that was given is 1..100, every
 * `bytes` 0. */
int parse_percent_list(const char *text, struct quota_list *ret_list);

/* The quota of one device by a list: by index, else the one for every device, else 0, 0. */
struct quota quota_list_device(const struct quota_list *list, unsigned index);

/* "3.9 GiB", "512 B", "1.0 TiB": for people. Rounds down, so that a full quota never shows as more
 * than it is. */
#define SIZE_TEXT_BYTES 24
const char *format_bytes(uint64_t bytes, char *buffer, size_t buffer_bytes);

/* "0 s", "12.3 us", "4.56 s", "3 min 20 s", "5 h 12 min": for people. Rounds down. */
#define DURATION_TEXT_BYTES 32
const char *format_duration(uint64_t ns, char *buffer, size_t buffer_bytes);

/* A name of an instance: letters, digits, '.', '_', '-'; begins with a letter or digit; 1..63
 * long. */
bool parse_name_valid(const char *name);

#endif
