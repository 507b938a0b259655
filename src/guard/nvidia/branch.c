#include "guard/nvidia/branch.h"

#include "base/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define PROC_VERSION "/proc/driver/nvidia/version"

static const struct rm_branch branches[] = {
#define BRANCH(...) {__VA_ARGS__},
#include "branches.def"
#undef BRANCH
};

#define BRANCHES (sizeof(branches) / sizeof(branches[0]))

/* Whether the word is a version: two or three numbers with dots between them. */
static bool take_version(const char *word, size_t length, struct rm_version *version)
{
    unsigned number[3] = {0}, dots = 0;

    if (length == 0 || length >= sizeof(version->text))
        return false;
    for (size_t i = 0; i < length; i++) {
        if (word[i] == '.') {
            if (i == 0 || i + 1 == length || word[i - 1] == '.' || ++dots > 2)
                return false;
        } else if (word[i] < '0' || word[i] > '9' || number[dots] > 9999) {
            return false;
        } else {
            number[dots] = number[dots] * 10 + (unsigned)(word[i] - '0');
        }
    }
    if (dots == 0 || number[0] == 0)
        return false;
    version->major = number[0];
    version->minor = number[1];
    memcpy(version->text, word, length);
    version->text[length] = '\0';
    return true;
}

static int parse_version(const char *text, struct rm_version *ret_version)
{
    static const char head[] = "NVRM version:";
    const char *line = strstr(text, head), *end;
    struct rm_version version = {0};

    if (!line)
        return -EINVAL;
    line += sizeof(head) - 1;
    end = line + strcspn(line, "\n");
    for (const char *word = line; word < end;) {
        size_t length = strcspn(word, " \t\n");

        if (take_version(word, length, &version)) {
            *ret_version = version;
            return 0;
        }
        /* Only before the version: what comes after it are names and dates of whoever has built
         * it. */
        if (length == 4 && !strncmp(word, "Open", 4))
            version.open_modules = true;
        word += length ? length : 1;
    }
    return -EINVAL;
}

static int find_branch(const struct rm_version *version, const struct rm_branch **ret_branch)
{
    for (size_t i = 0; i < BRANCHES; i++) {
        if (branches[i].major == version->major && branches[i].minor_from <= version->minor) {
            *ret_branch = &branches[i];
            return 0;
        }
    }
    return -ENOENT;
}

int branch_read(const char *device_dir, struct rm_version *ret_version,
                const struct rm_branch **ret_branch)
{
    char path[PATH_MAX], text[1024];
    size_t length;
    int rc;

    if ((size_t)snprintf(path, sizeof(path), "%s/version", device_dir) >= sizeof(path))
        return -ENAMETOOLONG;
    rc = file_read_small(path, text, sizeof(text), &length);
    if (rc == -ENOENT)
        rc = file_read_small(PROC_VERSION, text, sizeof(text), &length);
    if (rc == -ENOENT)
        return -ENODEV;
    if (rc < 0)
        return rc;
    rc = parse_version(text, ret_version);
    return rc < 0 ? rc : find_branch(ret_version, ret_branch);
}

const char *branch_list(char *buffer, size_t buffer_bytes)
{
    size_t used = 0;

    if (buffer_bytes)
        buffer[0] = '\0';
    for (size_t i = 0; i < BRANCHES && used < buffer_bytes; i++)
        used += (size_t)snprintf(buffer + used, buffer_bytes - used, "%s%u", i ? ", " : "",
                                 branches[i].major);
    return buffer;
}
