#include "base/parse.h"

#include "base/clock.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_CHARS 63

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads digits at *text and moves it behind them. A leading zero means "0" only: 010 is octal to some and ten to
 * others. */
static int read_digits(const char **text, uint64_t *ret_number)
{
    const char *at = *text;
    uint64_t number = 0;

    if (!is_digit(*at) || (at[0] == '0' && is_digit(at[1])))
        return -EINVAL;
    for (; is_digit(*at); at++) {
        if (__builtin_mul_overflow(number, (uint64_t)10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number))
            return -ERANGE;
    }
    *text = at;
    *ret_number = number;
    return 0;
}

int parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret_count)
{
    uint64_t number;
    int rc = read_digits(&text, &number);

    if (rc < 0)
        return rc;
    if (*text)
        return -EINVAL;
    if (number < min || number > max)
        return -ERANGE;
    *ret_count = number;
    return 0;
}

/* The power of two behind a unit that is the whole rest of the text; -1: none. */
static int unit_shift(const char *unit)
{
    static const char letters[] = "kmgt";
    const char *letter;

    if (!*unit)
        return 0;
    letter = strchr(letters, tolower((unsigned char)*unit));
    if (!letter || !*letter || (unit[1] && strcmp(unit + 1, "iB") != 0))
        return -1;
    return 10 * (int)(letter - letters + 1);
}

int parse_bytes(const char *text, uint64_t *ret_bytes)
{
    uint64_t number;
    int rc = read_digits(&text, &number), shift;

    if (rc < 0)
        return rc;
    shift = unit_shift(text);
    if (shift < 0 || number == 0)
        return -EINVAL;
    if (number > (uint64_t)INT64_MAX >> shift)
        return -ERANGE;
    *ret_bytes = number << shift;
    return 0;
}

int parse_quota(const char *text, struct quota *ret_quota)
{
    const char *at = text;
    uint64_t number, bytes;
    int rc = read_digits(&at, &number);

    if (rc < 0)
        return rc;
    if (strcmp(at, "%") == 0) {
        if (number < 1 || number > 100)
            return -ERANGE;
        *ret_quota = (struct quota){.percent = (uint32_t)number};
        return 0;
    }
    rc = parse_bytes(text, &bytes);
    if (rc < 0)
        return rc;
    *ret_quota = (struct quota){.bytes = bytes};
    return 0;
}

int parse_percent(const char *text, uint32_t *ret_percent)
{
    const char *unit = text + strspn(text, "0123456789");
    uint64_t number;
    int rc = *unit && strcmp(unit, "%") != 0 ? -EINVAL : read_digits(&text, &number);

    if (rc < 0)
        return rc;
    if (number < 1 || number > 100)
        return -ERANGE;
    *ret_percent = (uint32_t)number;
    return 0;
}

static int parse_share(const char *text, struct quota *ret_quota)
{
    uint32_t percent;
    int rc = parse_percent(text, &percent);

    if (rc == 0)
        *ret_quota = (struct quota){.percent = percent};
    return rc;
}

static bool quota_given(const struct quota *quota)
{
    return quota->bytes || quota->percent;
}

typedef int parse_value(const char *text, struct quota *ret_quota);

/* One item of a list: "8G" or "1:8G". */
static int parse_item(char *item, parse_value *parse, struct quota_list *list)
{
    char *colon = strchr(item, ':');
    uint64_t index;
    int rc;

    if (!colon) {
        if (quota_given(&list->everywhere))
            return -EINVAL;
        return parse(item, &list->everywhere);
    }
    *colon = '\0';
    rc = parse_count(item, 0, QUOTA_DEVICES_MAX - 1, &index);
    if (rc < 0)
        return rc;
    if (list->given & 1u << index)
        return -EINVAL;
    rc = parse(colon + 1, &list->device[index]);
    if (rc == 0)
        list->given |= 1u << index;
    return rc;
}

static int parse_list(const char *text, parse_value *parse, struct quota_list *ret_list)
{
    struct quota_list list = {.given = 0};
    const char *at = text;

    for (;;) {
        const char *end = strchr(at, ',');
        size_t length = end ? (size_t)(end - at) : strlen(at);
        char item[48];
        int rc;

        if (length == 0 || length >= sizeof(item))
            return -EINVAL;
        memcpy(item, at, length);
        item[length] = '\0';
        rc = parse_item(item, parse, &list);
        if (rc < 0)
            return rc;
        if (!end)
            break;
        at = end + 1;
    }
    *ret_list = list;
    return 0;
}

int parse_quota_list(const char *text, struct quota_list *ret_list)
{
    return parse_list(text, parse_quota, ret_list);
}

int parse_percent_list(const char *text, struct quota_list *ret_list)
{
    return parse_list(text, parse_share, ret_list);
}

struct quota quota_list_device(const struct quota_list *list, unsigned index)
{
    if (index < QUOTA_DEVICES_MAX && (list->given & 1u << index))
        return list->device[index];
    return list->everywhere;
}

const char *parse_complaint(const char *what, const char *text, char *buffer, size_t buffer_bytes)
{
    if (buffer_bytes)
        snprintf(buffer, buffer_bytes, "%s '%.64s': not accepted: %s", what, text, SIZE_FORMS);
    return buffer;
}

const char *format_bytes(uint64_t bytes, char *buffer, size_t buffer_bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned unit = 0;
    uint64_t whole = bytes, below = 0;

    while (whole >= 1024) {
        below = whole & 1023;
        whole >>= 10;
        unit++;
    }
    if (!buffer_bytes)
        return buffer;
    if (unit == 0)
        snprintf(buffer, buffer_bytes, "%llu B", (unsigned long long)whole);
    else
        snprintf(buffer, buffer_bytes, "%llu.%llu %s", (unsigned long long)whole,
                 (unsigned long long)(below * 10 / 1024), units[unit]);
    return buffer;
}

const char *format_duration(uint64_t ns, char *buffer, size_t buffer_bytes)
{
    unsigned long long us = ns / 1000, ms = ns / NS_PER_MS, s = ns / NS_PER_S;

    if (!buffer_bytes)
        return buffer;
    if (ns == 0)
        snprintf(buffer, buffer_bytes, "0 s");
    else if (us == 0)
        snprintf(buffer, buffer_bytes, "%u ns", (unsigned)ns);
    else if (ms == 0)
        snprintf(buffer, buffer_bytes, "%llu.%u us", us, (unsigned)(ns % 1000 / 100));
    else if (s == 0)
        snprintf(buffer, buffer_bytes, "%llu.%u ms", ms, (unsigned)(us % 1000 / 100));
    else if (s < 120)
        snprintf(buffer, buffer_bytes, "%llu.%02u s", s, (unsigned)(ms % 1000 / 10));
    else if (s < 7200)
        snprintf(buffer, buffer_bytes, "%llu min %llu s", s / 60, s % 60);
    else
        snprintf(buffer, buffer_bytes, "%llu h %llu min", s / 3600, s / 60 % 60);
    return buffer;
}

bool parse_name_valid(const char *name)
{
    size_t length = strlen(name);

    if (length < 1 || length > NAME_MAX_CHARS || !isalnum((unsigned char)name[0]))
        return false;
    for (; *name; name++) {
        if (!isalnum((unsigned char)*name) && !strchr("._-", *name))
            return false;
    }
    return true;
}
