#include "base/parse.h"

#include "base/clock.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_CHARS 63

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/*
 * Reads digits at *text and moves it behind them. Refuses a leading zero, which could mean octal.
 */
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

static int digit_of(char c)
{
    int lower = c | 0x20;

    return is_digit(c) ? c - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 16;
}

/* Reads digits of `base` at *text and moves it behind them. */
static int read_base(const char **text, unsigned base, uint64_t *ret_number)
{
    const char *at = *text;
    uint64_t number = 0;

    if ((unsigned)digit_of(*at) >= base)
        return -PARSE_FORM;
    for (; (unsigned)digit_of(*at) < base; at++) {
        if (__builtin_mul_overflow(number, (uint64_t)base, &number) ||
            __builtin_add_overflow(number, (uint64_t)digit_of(*at), &number))
            return -PARSE_LARGE;
    }
    *text = at;
    *ret_number = number;
    return 0;
}

/* The power of two of a unit that is the whole rest of the text; -1: it is no unit. */
static int unit_shift(const char *unit)
{
    static const char letters[] = "kmgt";
    const char *letter;

    if (!*unit || strcasecmp(unit, "b") == 0)
        return 0;
    letter = strchr(letters, tolower((unsigned char)*unit));
    unit++;
    if (!letter || !*letter ||
        (*unit && strcasecmp(unit, "b") && strcasecmp(unit, "i") && strcasecmp(unit, "ib")))
        return -1;
    return 10 * (int)(letter - letters + 1);
}

/* The digits behind the point ("5" of "1.5"): at most FRACTION_DIGITS, without trailing zeros. */
#define FRACTION_DIGITS 18
struct fraction {
    uint64_t digits;
    unsigned length;
};

static int read_fraction(const char **text, struct fraction *ret_fraction)
{
    const char *at = *text;
    size_t length = strspn(at, "0123456789"), kept = length;
    struct fraction fraction = {0, 0};

    if (length == 0)
        return -PARSE_FORM;
    while (kept > 0 && at[kept - 1] == '0')
        kept--;
    if (kept > FRACTION_DIGITS)
        return -PARSE_FRACTION;
    for (; fraction.length < kept; fraction.length++)
        fraction.digits = fraction.digits * 10 + (uint64_t)(at[fraction.length] - '0');
    *text = at + length;
    *ret_fraction = fraction;
    return 0;
}

/* digits / 10^length * 2^shift, if that is whole. Divides by the fives first, then by the twos, so
 * that nothing overflows. */
static bool fraction_bytes(struct fraction fraction, unsigned shift, uint64_t *ret_bytes)
{
    uint64_t rest = fraction.digits;
    unsigned twos = fraction.length;

    for (unsigned i = 0; i < fraction.length; i++) {
        if (rest % 5 != 0)
            return false;
        rest /= 5;
    }
    for (; twos > shift; twos--) {
        if (rest % 2 != 0)
            return false;
        rest /= 2;
    }
    *ret_bytes = rest << (shift - twos);
    return true;
}

/* The number before the unit. `loosely`: as strtoul() reads it with a base of 0. */
static int read_size_number(const char **text, bool loosely, uint64_t *ret_number,
                            struct fraction *ret_fraction)
{
    const char *at = *text;
    bool leading_zero, decimal = true;
    int rc;

    if (loosely)
        at += strspn(at, " \t\n\v\f\r");
    if (loosely && *at == '+')
        at++;
    if (!*at)
        return -PARSE_EMPTY;
    if (*at == '-' && is_digit(at[1]))
        return -PARSE_NEGATIVE;
    leading_zero = at[0] == '0' && at[1] != '\0';
    if (loosely && leading_zero && (at[1] | 0x20) == 'x' && digit_of(at[2]) < 16) {
        at += 2;
        decimal = false;
        rc = read_base(&at, 16, ret_number);
    } else if (leading_zero && is_digit(at[1])) {
        decimal = false;
        rc = loosely ? read_base(&at, 8, ret_number) : -PARSE_FORM;
    } else {
        rc = read_base(&at, 10, ret_number);
    }
    *ret_fraction = (struct fraction){0, 0};
    if (rc == 0 && decimal && *at == '.') {
        at++;
        rc = read_fraction(&at, ret_fraction);
    }
    *text = at;
    return rc;
}

static int read_size(const char *text, bool loosely, uint64_t *ret_bytes)
{
    struct fraction fraction;
    uint64_t number, bytes, part;
    int rc = read_size_number(&text, loosely, &number, &fraction), shift;

    if (rc < 0)
        return rc;
    shift = unit_shift(text);
    if (shift < 0)
        return -PARSE_FORM;
    if (number > (uint64_t)INT64_MAX >> shift)
        return -PARSE_LARGE;
    if (!fraction_bytes(fraction, (unsigned)shift, &part))
        return -PARSE_FRACTION;
    bytes =
        (number << shift) + part; /* the part is less than the unit, which divides the limit + 1 */
    if (bytes == 0)
        return -PARSE_ZERO;
    *ret_bytes = bytes;
    return 0;
}

int parse_bytes(const char *text, uint64_t *ret_bytes)
{
    return read_size(text, false, ret_bytes);
}

static int read_quota(const char *text, bool loosely, struct quota *ret_quota)
{
    const char *at = text;
    struct fraction fraction;
    uint64_t number, bytes;
    int rc = read_size_number(&at, loosely, &number, &fraction);

    if (rc == 0 && strcmp(at, "%") == 0) {
        if (fraction.length || number < 1 || number > 100)
            return -PARSE_PERCENT;
        *ret_quota = (struct quota){.percent = (uint32_t)number};
        return 0;
    }
    rc = read_size(text, loosely, &bytes);
    if (rc == 0)
        *ret_quota = (struct quota){.bytes = bytes};
    return rc;
}

static int parse_quota(const char *text, struct quota *ret_quota)
{
    return read_quota(text, false, ret_quota);
}

int parse_quota_loosely(const char *text, struct quota *ret_quota)
{
    return read_quota(text, true, ret_quota);
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
    return rc == 0 ? 0 : !*text ? -PARSE_EMPTY : -PARSE_PERCENT;
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
            return -PARSE_TWO_FOR_ALL;
        return parse(item, &list->everywhere);
    }
    *colon = '\0';
    rc = parse_count(item, 0, QUOTA_DEVICES_MAX - 1, &index);
    if (rc < 0)
        return -PARSE_DEVICE;
    if (list->given & 1u << index)
        return -PARSE_TWICE;
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

        if (length == 0)
            return *text ? -PARSE_ITEM : -PARSE_EMPTY;
        if (length >= sizeof(item))
            return -PARSE_FORM;
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

const char *parse_fault_text(int rc)
{
    static const char *const texts[] = {
#define X(id, text) [PARSE_##id] = (text),
        PARSE_FAULT_LIST(X)
#undef X
    };

    return rc < 0 && rc > -PARSE_FAULTS ? texts[-rc] : "not accepted";
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
