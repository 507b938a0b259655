#include "cli/turns.h"

#include "base/cleanup.h"
#include "cli/instance.h"
#include "cli/message.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENTRIES_MOST 256u

#define SOME_DEVICE "GPU-" /* stands for any device, to check the directory for this user */

void turns_examine(const struct vgpu_limits *limits,
                   void (*each)(const struct arena_entry *entry, int rc, void *arg), void *arg)
{
    struct arena_entry *entries CLEANUP_FREE = calloc(ENTRIES_MOST, sizeof(*entries));
    unsigned count = 0, others = 0;
    int rc = arena_check(SOME_DEVICE);

    if (rc < 0)
        each(NULL, rc, arg);
    if (!entries || arena_list(entries, ENTRIES_MOST, &count) < 0)
        return;
    for (unsigned i = 0; i < count; i++) {
        if (limits && !instance_has_device(limits, entries[i].uuid))
            continue;
        rc = entries[i].ours ? arena_check(entries[i].uuid) : 0;
        if (rc != 0)
            each(&entries[i], rc, arg);
        if (!entries[i].ours)
            entries[others++] = entries[i];
    }
    if (others == 0)
        return;
    arena_list_used(entries, others);
    for (unsigned i = 0; i < others; i++)
        if (entries[i].used)
            each(&entries[i], 0, arg);
}

const char *turns_user(uid_t user, char *buffer, size_t size)
{
    const struct passwd *account = getpwuid(user);

    if (account)
        snprintf(buffer, size, "%s", account->pw_name);
    else
        snprintf(buffer, size, "%u", (unsigned)user);
    return buffer;
}

static void make_anew(const struct arena_entry *entry)
{
    struct vgpu_arena *arena;
    char text[64];
    int rc = arena_open(entry->uuid, true, &arena);

    if (rc == 0) {
        arena_close(arena);
        message_warning("the file for turns on %s in %s was damaged and has been made anew",
                        entry->uuid, arena_folder());
    } else {
        message_warning("no turns on %s: %s", entry->uuid,
                        arena_error_text(rc, text, sizeof(text)));
    }
}

static void report(const struct arena_entry *entry, int rc, void *arg)
{
    char user[TURNS_USER_BYTES], text[64];

    (void)arg;
    if (!entry)
        message_warning("no turns on any device: %s: %s; choose another folder by VGPU_ARENA_DIR",
                        arena_folder(), arena_error_text(rc, text, sizeof(text)));
    else if (rc == ARENA_BROKEN)
        make_anew(entry);
    else if (rc < 0)
        message_warning("no turns on %s: %s; see %s", entry->uuid,
                        arena_error_text(rc, text, sizeof(text)), arena_folder());
    else
        message_warning(
            "instances of user %s share %s without turns with yours; root joins users by a folder: "
            "VGPU_ARENA_DIR in libvgpu(7)",
            turns_user(entry->owner, user, sizeof(user)), entry->uuid);
}

void turns_report(const struct vgpu_limits *limits)
{
    turns_examine(limits, report, NULL);
}
