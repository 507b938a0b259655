/* Sizes, quotas, percentages, lists, counts, names, and sizes and times as people read them. */
#include "unit.h"

#include "base/parse.h"

#include <errno.h>

TEST(sizes_accepted)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"1", 1},
        {"1073741824", GIB},
        {"8G", 8 * GIB},
        {"8g", 8 * GIB},
        {"8GiB", 8 * GIB},
        {"8giB", 8 * GIB},
        {"8192m", 8 * GIB},
        {"8192M", 8 * GIB},
        {"8192MiB", 8 * GIB},
        {"4k", 4096},
        {"4KiB", 4096},
        {"2t", 2048 * GIB},
        {"9223372036854775807", INT64_MAX},
        {"8589934591g", 8589934591ULL << 30},
        {"8GB", 8 * GIB},
        {"8gb", 8 * GIB},
        {"8Gi", 8 * GIB},
        {"8GI", 8 * GIB},
        {"8gib", 8 * GIB},
        {"8GIB", 8 * GIB},
        {"64b", 64},
        {"3Ki", 3072},
        {"3Mi", 3 * MIB},
        {"2Ti", 2048 * GIB},
        {"1KB", 1024},
        {"1.5G", 3 * GIB / 2},
        {"1.50000000000000000000000G", 3 * GIB / 2},
        {"0.5Gi", GIB / 2},
        {"0.25k", 256},
        {"0.0009765625k", 1},
        {"1.0", 1},
        {"0.5t", 512 * GIB},
        {"8388607.5t", (8388607ULL << 40) + (1ULL << 39)},
    };

    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        uint64_t bytes = 0;

        assert_int_equal(parse_bytes(good[i].text, &bytes), 0);
        assert_int_equal(bytes, good[i].bytes);
    }
}

TEST(sizes_refused)
{
    /* Among them all that HAMi's parser takes for something else than it is. */
    static const char *const bad[] = {
        "",
        " ",
        "0",
        "0m",
        "00",
        "08G",
        "0x10m",
        "-1",
        "+1",
        " 8G",
        "8G ",
        "8 G",
        "1.5",
        "1.3g",
        "0.1G",
        "0.0001k",
        "0.0",
        "0.0G",
        "0.5b",
        ".5G",
        "1.G",
        "1..5G",
        "1.5.5G",
        "1.-5G",
        "01.5G",
        "-1.5G",
        "1,5g",
        "1g5",
        "8GBi",
        "8BB",
        "8iB",
        "8i",
        "0.00000000000000000000001t",
        "8388608.5t",
        "abc",
        "g",
        "8GG",
        "8p",
        "8e",
        "1e9",
        "8K8",
        "8G\n",
        "40%",
        "%",
        "infinity",
        "18446744073709551616",
        "18446744073709551615",
        "9223372036854775808",
        "8589934592g",
        "8388608t",
        "99999999999999999999t",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        uint64_t bytes = 77;

        if (parse_bytes(bad[i], &bytes) >= 0)
            fail_msg("'%s' was taken for %llu bytes", bad[i], (unsigned long long)bytes);
        assert_int_equal(bytes, 77);
    }
}

TEST(sizes_read_loosely)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0x10m", 16 * MIB},   {"0X1fk", 31 * 1024}, {"0x40000000", GIB}, {"010m", 8 * MIB},
        {" 8G", 8 * GIB},      {"\t\n8G", 8 * GIB},  {"+8G", 8 * GIB},    {" 0x8Gi", 8 * GIB},
        {"1.5g", 3 * GIB / 2}, {"1Gi", GIB},         {"0x1b", 27},        {"0.5g", GIB / 2},
    };
    static const struct {
        const char *text;
        int rc;
    } bad[] = {
        {"0", -PARSE_ZERO},
        {"0m", -PARSE_ZERO},
        {"00", -PARSE_ZERO},
        {"0x0g", -PARSE_ZERO},
        {" 0", -PARSE_ZERO},
        {"-1", -PARSE_NEGATIVE},
        {" -1", -PARSE_NEGATIVE},
        {"08G", -PARSE_FORM},
        {"0x", -PARSE_FORM},
        {"0xg", -PARSE_FORM},
        {"abc", -PARSE_FORM},
        {"1g5", -PARSE_FORM},
        {"8G ", -PARSE_FORM},
        {"+ 8G", -PARSE_FORM},
        {"", -PARSE_EMPTY},
        {"  ", -PARSE_EMPTY},
        {"0x1.8g", -PARSE_FORM},
        {"010.5g", -PARSE_FORM},
        {"101%", -PARSE_PERCENT},
        {"0x8000000000000000", -PARSE_LARGE},
        {"0x1ffffffffffffffff", -PARSE_LARGE},
    };
    struct quota quota;

    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        assert_int_equal(parse_quota_loosely(good[i].text, &quota), 0);
        assert_int_equal(quota.bytes, good[i].bytes);
        assert_int_equal(quota.percent, 0);
    }
    assert_int_equal(parse_quota_loosely(" 40%", &quota), 0);
    assert_int_equal(quota.percent, 40);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        int rc = parse_quota_loosely(bad[i].text, &quota);

        if (rc != bad[i].rc)
            fail_msg("'%s': %d, not %d", bad[i].text, rc, bad[i].rc);
    }
}

TEST(faults_are_told_apart)
{
    static const struct {
        const char *text;
        int rc;
    } bad[] = {
        {"", -PARSE_EMPTY},
        {"8X", -PARSE_FORM},
        {"-1", -PARSE_NEGATIVE},
        {"0", -PARSE_ZERO},
        {"1.3G", -PARSE_FRACTION},
        {"8E", -PARSE_FORM},
        {"9000000t", -PARSE_LARGE},
        {"0%", -PARSE_PERCENT},
        {"101%", -PARSE_PERCENT},
        {"16:8G", -PARSE_DEVICE},
        {"x:8G", -PARSE_DEVICE},
        {"0:8G,0:4G", -PARSE_TWICE},
        {"8G,4G", -PARSE_TWO_FOR_ALL},
        {"8G,", -PARSE_ITEM},
        {",8G", -PARSE_ITEM},
        {"0:", -PARSE_EMPTY},
        {"0:8G,1:-4G", -PARSE_NEGATIVE},
    };
    struct quota_list list;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        int rc = parse_quota_list(bad[i].text, &list);

        if (rc != bad[i].rc)
            fail_msg("'%s': %d (%s), not %d", bad[i].text, rc, parse_fault_text(rc), bad[i].rc);
        assert_true(strlen(parse_fault_text(rc)) > 10);
    }
    assert_int_equal(parse_percent_list("0", &list), -PARSE_PERCENT);
    assert_int_equal(parse_percent_list("", &list), -PARSE_EMPTY);
    assert_string_equal(parse_fault_text(-PARSE_TWICE), "a device is named twice");
    assert_string_equal(parse_fault_text(-PARSE_FAULTS), "not accepted");
}

TEST(quotas)
{
    static const char *const bad[] = {"0%", "101%", "40%%",        "40 %", "40.5%",
                                      "%",  "-1%",  "4294967297%", "040%", "40%g"};
    struct quota_list list = {0};

    assert_int_equal(parse_quota_list("40%", &list), 0);
    assert_int_equal(list.everywhere.percent, 40);
    assert_int_equal(list.everywhere.bytes, 0);
    assert_int_equal(parse_quota_list("100%", &list), 0);
    assert_int_equal(parse_quota_list("1%", &list), 0);
    assert_int_equal(parse_quota_list("3g", &list), 0);
    assert_int_equal(list.everywhere.percent, 0);
    assert_int_equal(list.everywhere.bytes, 3 * GIB);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        if (parse_quota_list(bad[i], &list) >= 0)
            fail_msg("'%s' was accepted", bad[i]);
    }
}

TEST(quota_lists)
{
    static const char *const bad[] = {"",          ",",         "8G,",   ",8G",      "8G,4G",
                                      "0:8G,0:4G", "16:8G",     "-1:8G", "0:",       ":8G",
                                      "0:8G:",     "0 :8G",     "0: 8G", "x:8G",     "00:8G",
                                      "8G;4G",     "0:8G 1:4G", "0:0",   "8G,,1:4G", "1:0:8G"};
    struct quota_list list;

    assert_int_equal(parse_quota_list("8G", &list), 0);
    assert_int_equal(quota_list_device(&list, 0).bytes, 8 * GIB);
    assert_int_equal(quota_list_device(&list, 15).bytes, 8 * GIB);
    assert_int_equal(parse_quota_list("0:8G,1:40%", &list), 0);
    assert_int_equal(quota_list_device(&list, 0).bytes, 8 * GIB);
    assert_int_equal(quota_list_device(&list, 1).percent, 40);
    assert_int_equal(quota_list_device(&list, 2).bytes, 0);
    assert_int_equal(list.given, 3);
    assert_int_equal(parse_quota_list("8G,15:4G", &list), 0);
    assert_int_equal(quota_list_device(&list, 14).bytes, 8 * GIB);
    assert_int_equal(quota_list_device(&list, 15).bytes, 4 * GIB);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        memset(&list, 0x55, sizeof(list));
        if (parse_quota_list(bad[i], &list) >= 0)
            fail_msg("'%s' was accepted", bad[i]);
        assert_int_equal(list.given, 0x55555555);
    }
}

TEST(percentages)
{
    static const char *const malformed[] = {
        "",    "%",  "a",   "-1", "+5",  " 5", "5 ",
        "5%%", "%5", "1.5", "05", "0x5", "5G", "99999999999999999999x"};
    static const char *const preempt[] = {"0",    "0%",         "101",
                                          "101%", "4294967297", "18446744073709551616"};
    uint32_t percent = 0;

    assert_int_equal(parse_percent("1", &percent), 0);
    assert_int_equal(percent, 1);
    assert_int_equal(parse_percent("30%", &percent), 0);
    assert_int_equal(percent, 30);
    assert_int_equal(parse_percent("100", &percent), 0);
    assert_int_equal(percent, 100);
    percent = 77;
    for (size_t i = 0; i < sizeof(malformed) / sizeof(*malformed); i++) {
        if (parse_percent(malformed[i], &percent) != -EINVAL)
            fail_msg("'%s' is not malformed", malformed[i]);
    }
    /* Numbers all the same: some callers have a meaning for them. */
    for (size_t i = 0; i < sizeof(preempt) / sizeof(*preempt); i++) {
        if (parse_percent(preempt[i], &percent) != -ERANGE)
            fail_msg("'%s' is not out of range", preempt[i]);
    }
    assert_int_equal(percent, 77);
}

TEST(percent_lists)
{
    static const char *const bad[] = {"",       ",",    "30,",     ",30",   "30,40", "0:30,0:40",
                                      "16:30",  "0:",   "0:30:40", "8G",    "0:8G",  "0",
                                      "0:0",    "101",  "0:101",   "30;40", "0:30 ", "a:30",
                                      "30,,40", "-1:5", "0:30,%",  "00:30"};
    struct quota_list list;

    assert_int_equal(parse_percent_list("30", &list), 0);
    assert_int_equal(list.given, 0);
    assert_int_equal(quota_list_device(&list, 0).percent, 30);
    assert_int_equal(quota_list_device(&list, 15).percent, 30);
    assert_int_equal(quota_list_device(&list, 15).bytes, 0);
    assert_int_equal(parse_percent_list("0:30,1:50%", &list), 0);
    assert_int_equal(list.given, 3);
    assert_int_equal(quota_list_device(&list, 0).percent, 30);
    assert_int_equal(quota_list_device(&list, 1).percent, 50);
    assert_int_equal(quota_list_device(&list, 2).percent, 0);
    assert_int_equal(parse_percent_list("75,15:100", &list), 0);
    assert_int_equal(quota_list_device(&list, 14).percent, 75);
    assert_int_equal(quota_list_device(&list, 15).percent, 100);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        memset(&list, 0x55, sizeof(list));
        if (parse_percent_list(bad[i], &list) >= 0)
            fail_msg("'%s' was accepted", bad[i]);
        assert_int_equal(list.given, 0x55555555);
    }
}

TEST(counts)
{
    uint64_t count = 0;

    assert_int_equal(parse_count("0", 0, 9, &count), 0);
    assert_int_equal(parse_count("18446744073709551615", 0, UINT64_MAX, &count), 0);
    assert_true(count == UINT64_MAX);
    assert_true(parse_count("18446744073709551616", 0, UINT64_MAX, &count) < 0);
    assert_true(parse_count("10", 0, 9, &count) < 0);
    assert_true(parse_count("1", 2, 9, &count) < 0);
    assert_true(parse_count("5 ", 0, 9, &count) < 0);
    assert_true(parse_count("", 0, 9, &count) < 0);
}

TEST(sizes_shown)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } shown[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1.0 KiB"},
        {512 * MIB, "512.0 MiB"},
        {4 * GIB - 1, "3.9 GiB"},
        {4 * GIB, "4.0 GiB"},
        {1024 * GIB, "1.0 TiB"},
        {UINT64_MAX, "15.9 EiB"},
    };
    char buffer[SIZE_TEXT_BYTES];

    for (size_t i = 0; i < sizeof(shown) / sizeof(*shown); i++)
        assert_string_equal(format_bytes(shown[i].bytes, buffer, sizeof(buffer)), shown[i].text);
}

TEST(durations_shown)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } shown[] = {
        {0, "0 s"},
        {999, "999 ns"},
        {1000, "1.0 us"},
        {999999, "999.9 us"},
        {1000000, "1.0 ms"},
        {12345678, "12.3 ms"},
        {999999999, "999.9 ms"},
        {NS_PER_S, "1.00 s"},
        {4567 * NS_PER_MS, "4.56 s"},
        {120 * NS_PER_S - 1, "119.99 s"},
        {120 * NS_PER_S, "2 min 0 s"},
        {7200 * NS_PER_S - 1, "119 min 59 s"},
        {7200 * NS_PER_S, "2 h 0 min"},
        {UINT64_MAX, "5124095 h 34 min"},
    };
    char buffer[DURATION_TEXT_BYTES];

    for (size_t i = 0; i < sizeof(shown) / sizeof(*shown); i++)
        assert_string_equal(format_duration(shown[i].ns, buffer, sizeof(buffer)), shown[i].text);
}

TEST(names)
{
    char longest[65];

    memset(longest, 'a', 64);
    longest[64] = '\0';
    assert_false(parse_name_valid(longest));
    longest[63] = '\0';
    assert_true(parse_name_valid(longest));
    assert_true(parse_name_valid("train-1.2_x"));
    assert_false(parse_name_valid(""));
    assert_false(parse_name_valid("."));
    assert_false(parse_name_valid(".."));
    assert_false(parse_name_valid("a/b"));
    assert_false(parse_name_valid("-x"));
    assert_false(parse_name_valid("a b"));
}
