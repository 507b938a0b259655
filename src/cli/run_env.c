#include "cli/run.h"

#include "base/setting.h"
#include "cli/message.h"
#include "account/instance.h"
#include "account/visible.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool run_env_set(const char *text)
{
    const char *equals = strchr(text, '=');
    char *name;
    bool valid = equals && equals != text;

    for (const char *c = text; valid && c < equals; c++)
        valid = *c > ' ' && *c != 0x7f;
    name = valid ? strndup(text, (size_t)(equals - text)) : NULL;
    if (!name || setenv(name, equals + 1, 1)) {
        message_error("run: --env \"%s\" is not of the form NAME=VALUE", text);
        free(name);
        return false;
    }
    free(name);
    return true;
}

/* Whether an entry of LD_PRELOAD is a vgpu library, of any build. A process must not load two. */
static bool is_our_library(const char *entry, size_t length, const char *library)
{
    const char *base = entry;

    for (const char *c = entry; c < entry + length; c++)
        if (*c == '/')
            base = c + 1;
    length -= (size_t)(base - entry);
    return (strlen(library) == length + (size_t)(base - entry) &&
            !memcmp(entry, library, strlen(library))) ||
           (length >= 10 && !memcmp(base, "libvgpu.so", 10)) ||
           (length >= 16 && !memcmp(base, "libvgpu-trace.so", 16));
}

static bool is_same(const char *entry, size_t length, const char *own)
{
    return strlen(own) == length && !memcmp(entry, own, length);
}

/* Sets the list `setting` to `first` and then its old entries, except those that `drop` matches.
 * `separators` divide the old list, the first of them the new one. */
static bool put_first(enum setting setting, const char *first, const char *separators,
                      bool (*drop)(const char *entry, size_t length, const char *first))
{
    const char *name = setting_name(setting), *old = setting_raw(setting);
    char *list = malloc(strlen(first) + (old ? strlen(old) : 0) + 2);
    char *end;
    bool set;

    if (!list)
        return false;
    end = stpcpy(list, first);
    while (old && *old) {
        size_t length = strcspn(old, separators);

        if (length && !drop(old, length, first)) {
            if (end != list)
                *end++ = separators[0];
            end = mempcpy(end, old, length);
        }
        old += length;
        old += *old ? 1 : 0;
    }
    *end = '\0';
    set = (*list ? setenv(name, list, 1) : unsetenv(name)) == 0;
    free(list);
    return set;
}

/* AddressSanitizer refuses to start after another preloaded library, which could allocate before
 * it. vgpu's library does not. Options of the user follow and take precedence. */
static bool allow_sanitizers(void)
{
    static const char option[] = "verify_asan_link_order=0";
    const char *old = setting_text(SETTING_ASAN_OPTIONS);
    char *value = NULL;
    bool set;

    if (old && strstr(old, "verify_asan_link_order"))
        return true;
    if (asprintf(&value, "%s%s%s", option, old ? ":" : "", old ? old : "") < 0)
        return false;
    set = setenv(setting_name(SETTING_ASAN_OPTIONS), value, 1) == 0;
    free(value);
    return set;
}

static bool set_group(uint64_t group)
{
    const char *name = setting_name(SETTING_GROUP);
    char text[24];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)group);
    return (group ? setenv(name, text, 1) : unsetenv(name)) == 0;
}

bool run_env(const char *instance_dir, uint64_t group, const char *library, const char *trace,
             const char *sim_dir)
{
    bool set = setenv(setting_name(SETTING_INSTANCE), instance_dir, 1) == 0 && set_group(group) &&
               put_first(SETTING_PRELOAD, library ? library : "", ": \t", is_our_library);

    if (set && library)
        set = allow_sanitizers();
    if (set && trace)
        set = setenv(setting_name(SETTING_TRACE), trace, 1) == 0;
    if (set && sim_dir)
        set = put_first(SETTING_LIBRARY_PATH, sim_dir, ":;", is_same);
    if (!set)
        message_error("run: out of memory");
    return set;
}

bool run_env_devices(const struct vgpu_limits *limits)
{
    static char list[VISIBLE_MAX];

    if (!limits->device_count)
        return true;
    visible_translate(setting_raw(SETTING_VISIBLE_DEVICES), limits, list);
    if (setenv(setting_name(SETTING_VISIBLE_DEVICES), list, 1) == 0)
        return true;
    message_error("run: out of memory");
    return false;
}
