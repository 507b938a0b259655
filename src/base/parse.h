/*
 * What people write: sizes, percentages, lists of them, counts; and sizes and times as people read them.
 *
 * Nothing is guessed: text is taken whole or refused (-EINVAL; -ERANGE where it is a number that does not fit).
 */
#ifndef VGPU_BASE_PARSE_H
#define VGPU_BASE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUOTA_DEVICES_MAX 16

/* The forms that parse_size() takes, for help texts and messages. */
#define SIZE_FORMS                                                                                                     \
    "use bytes (1073741824), or a whole number with k, m, g or t (8G, 8GiB, 8192m), or a percentage of the device "    \
    "(40%)"

/* A decimal number without sign, space or leading zeros beside "0" itself, min <= number <= max. */
int parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret_count);

/* Bytes: `1073741824`, `8G`, `8g`, `8GiB`, `8192m`; powers of 1024. Zero is refused. */
int parse_bytes(const char *text, uint64_t *ret_bytes);

/* One quota: bytes, or a percentage of the device (`40%`, 1..100). Exactly one of the two is not 0. */
struct quota {
    uint64_t bytes;
    uint32_t percent;
};
int parse_quota(const char *text, struct quota *ret_quota);

/*
 * A list: `8G` or `40%` for every device, `0:8G,1:4G` by the instance's device index, or both (`8G,1:4G`: 8G except
 * for device 1). An index twice, or two quotas for every device, are refused.
 */
struct quota_list {
    struct quota everywhere; /* 0, 0: not given */
    uint32_t given;          /* bit i: device[i] was given by index */
    struct quota device[QUOTA_DEVICES_MAX];
};
int parse_quota_list(const char *text, struct quota_list *ret_list);

/* A share: `30` or `30%`, 1..100. -ERANGE: another number, such as 0. */
int parse_percent(const char *text, uint32_t *ret_percent);

/* The same list of shares: `30`, `0:30,1:50`. Every `percent` that was given is 1..100, every `bytes` 0. */
int parse_percent_list(const char *text, struct quota_list *ret_list);

/* The quota of one device by a list: by index, else the one for every device, else 0, 0. */
struct quota quota_list_device(const struct quota_list *list, unsigned index);

/* Writes "size '1.5g': not accepted: use bytes (1073741824), or ..." and returns `buffer`. `what` is "size", "quota", a
 * variable's name ... */
const char *parse_complaint(const char *what, const char *text, char *buffer, size_t buffer_bytes);

/* "3.9 GiB", "512 B", "1.0 TiB": for people. Rounds down, so that a full quota never shows as more than it is. */
#define SIZE_TEXT_BYTES 24
const char *format_bytes(uint64_t bytes, char *buffer, size_t buffer_bytes);

/* "0 s", "12.3 us", "4.56 s", "3 min 20 s", "5 h 12 min": for people. Rounds down. */
#define DURATION_TEXT_BYTES 32
const char *format_duration(uint64_t ns, char *buffer, size_t buffer_bytes);

/* A name of an instance: letters, digits, '.', '_', '-'; begins with a letter or digit; 1..63 long. */
bool parse_name_valid(const char *name);

#endif
