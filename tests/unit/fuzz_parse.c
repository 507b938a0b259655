/* Fuzzing the parsers: whatever is accepted must be within what they promise. */
#include "base/parse.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
    if (parse_quota(text, &quota) == 0)
        require((quota.bytes == 0) != (quota.percent == 0) && quota.percent <= 100);
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
