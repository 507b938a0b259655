/*
 * Parses sizes, percentages, lists of them and counts, and formats sizes and times for display.
 *
 * A parser accepts a whole text or refuses it. Counts and percentages return -EINVAL for text that
 * is no number, and -ERANGE for a number out of range. Sizes, quotas and lists return a negative
 * parse_fault.
 */
#ifndef VGPU_BASE_PARSE_H
#define VGPU_BASE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUOTA_DEVICES_MAX 16

/* The forms of a size, for help and messages. */
#define SIZE_FORMS "use a size (8G, 512M, 1.5G) or a percentage (40%)"

/* The faults of a text: X(enum suffix, end of a message that begins with the text). */
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

/* The text of a negative parse_fault, for a message "<option> <text>: <this>". */
const char *parse_fault_text(int rc);

/* A decimal number from min to max, without sign, space or leading zeros ("0" itself is fine). */
int parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret_count);

/* Bytes: `1073741824`, `8G`, `8g`, `8GiB`, `8Gi`, `8GB`, `8192m`, `1.5G`. Units are powers of 1024.
 * A fraction must be a whole number of bytes. 1 to INT64_MAX; zero is -PARSE_ZERO. */
int parse_bytes(const char *text, uint64_t *ret_bytes);

/* One quota, in bytes or as a percentage of the device (`40%`, 1 to 100); the other member is 0. */
struct quota {
    uint64_t bytes;
    uint32_t percent;
};

/* A quota, and the forms of strtoul() with base 0: leading blanks and '+', hexadecimal, octal. */
int parse_quota_loosely(const char *text, struct quota *ret_quota);

/* A list: `8G` or `40%` for every device, `0:8G,1:4G` by the instance's device index, or both
 * (`8G,1:4G`: 8G except for device 1). Refuses an index twice, or two quotas for every device. */
struct quota_list {
    struct quota everywhere; /* 0, 0: not given */
    uint32_t given;          /* bit i: device[i] was given by index */
    struct quota device[QUOTA_DEVICES_MAX];
};
int parse_quota_list(const char *text, struct quota_list *ret_list);

/* A percentage: `30` or `30%`, 1 to 100. -ERANGE: another number, such as 0. */
int parse_percent(const char *text, uint32_t *ret_percent);

/* A list of percentages: `30`, `0:30,1:50`. Every `percent` that is given is 1 to 100, every
 * `bytes` 0. */
int parse_percent_list(const char *text, struct quota_list *ret_list);

/* The quota of one device: its own, else the one for every device, else 0, 0. */
struct quota quota_list_device(const struct quota_list *list, unsigned index);

/*
 * "3.9 GiB", "512 B", "1.0 TiB". Rounds down, so that a full quota never shows as more than it is.
 */
#define SIZE_TEXT_BYTES 24
const char *format_bytes(uint64_t bytes, char *buffer, size_t buffer_bytes);

/* "0 s", "12.3 us", "4.56 s", "3 min 20 s", "5 h 12 min". Rounds down. */
#define DURATION_TEXT_BYTES 32
const char *format_duration(uint64_t ns, char *buffer, size_t buffer_bytes);

/* Whether a text can be an instance's name: 1 to 63 letters, digits, '.', '_' and '-', of which the
 * first is a letter or digit. */
bool parse_name_valid(const char *name);

#endif
