#include "sched/arena_list.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "region/liveness.h"
#include "sched/arena_file.h"
#include "sched/policy.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#define PREFIX "vgpu-"

#define ENTRIES_MOST 256u /* files that a view looks through for other users' arenas */

/* "vgpu-UID-UUID" or "vgpu-UUID"; a UUID begins with a letter. Files that are being made have a dot
 * in their name. */
static const char *uuid_in(const char *name)
{
    const char *rest = name + strlen(PREFIX);
    size_t digits;

    if (strncmp(name, PREFIX, strlen(PREFIX)) || strchr(name, '.'))
        return NULL;
    digits = strspn(rest, "0123456789");
    if (digits > 0 && rest[digits] == '-')
        rest += digits + 1;
    return *rest && strlen(rest) < VGPU_UUID_LEN ? rest : NULL;
}

static bool fill_entry(const char *name, struct arena_entry *ret_entry)
{
    const char *uuid = uuid_in(name);
    struct arena_place ours;
    char path[PATH_MAX];
    struct stat st;

    if (!uuid || arena_place_find(uuid, geteuid(), &ours) < 0 ||
        snprintf(path, sizeof(path), "%s/%s", arena_folder(), name) >= (int)sizeof(path) ||
        file_stat_path(path, 0, &st) < 0)
        return false;
    *ret_entry = (struct arena_entry){
        .owner = st.st_uid,
        .ours = strcmp(path, ours.path) == 0,
        .device = st.st_dev,
        .inode = st.st_ino,
    };
    memcpy(ret_entry->uuid, uuid, strlen(uuid) + 1);
    return true;
}

/* Lines are "1: POSIX  ADVISORY  WRITE 1234 00:1b:5678 0 EOF"; the numbers of the device are
 * hexadecimal. */
void arena_list_used(struct arena_entry *entries, unsigned count)
{
    KEEP_ERRNO;
    FILE *locks = fopen("/proc/locks", "re");
    char line[256];

    while (locks && fgets(line, sizeof(line), locks)) {
        unsigned major_number, minor_number;
        unsigned long long inode;

        if (sscanf(line, "%*s %*s %*s %*s %*s %x:%x:%llu", &major_number, &minor_number, &inode) !=
            3)
            continue;
        for (unsigned i = 0; i < count; i++)
            if (entries[i].inode == inode && major(entries[i].device) == major_number &&
                minor(entries[i].device) == minor_number)
                entries[i].used = true;
    }
    if (locks)
        fclose(locks);
}

int arena_list(struct arena_entry *entries, unsigned most, unsigned *ret_count)
{
    KEEP_ERRNO;
    DIR *folder = opendir(arena_folder());
    struct dirent *file;
    unsigned count = 0;

    *ret_count = 0;
    if (!folder)
        return err_last();
    while (count < most && (file = readdir(folder)))
        if (fill_entry(file->d_name, &entries[count]))
            count++;
    closedir(folder);
    *ret_count = count;
    return 0;
}

/* Reading the tenants */

static bool read_at(int fd, void *buffer, size_t bytes, size_t from)
{
    return pread(fd, buffer, bytes, (off_t)from) == (ssize_t)bytes;
}

/* Counts the living processes of each tenant. False: the file is too short by now. */
static bool count_processes(int fd, struct liveness *liveness, unsigned *ret_processes,
                            bool *ret_active)
{
    uint32_t high;

    if (!read_at(fd, &high, sizeof(high), offsetof(struct arena_layout, pages_high)))
        return false;
    for (unsigned i = 0; i < high && i < ARENA_PAGES; i++) {
        size_t at = offsetof(struct arena_layout, page[i]);
        uint32_t used, tenant, active;

        if (!read_at(fd, &used, sizeof(used), at + offsetof(struct arena_page, used)) ||
            !read_at(fd, &tenant, sizeof(tenant), at + offsetof(struct arena_page, tenant)) ||
            !read_at(fd, &active, sizeof(active), at + offsetof(struct arena_page, active)))
            return false;
        if (!used || tenant >= ARENA_TENANTS || liveness_check(liveness, i + 1, NULL) == 0)
            continue;
        ret_processes[tenant]++;
        ret_active[tenant] = ret_active[tenant] || active;
    }
    return true;
}

static bool read_member(int fd, unsigned index, bool active, struct arena_member *ret_member)
{
    struct arena_tenant tenant;
    uint32_t holder;

    if (!read_at(fd, &tenant, sizeof(tenant), offsetof(struct arena_layout, tenant[index])) ||
        !read_at(fd, &holder, sizeof(holder), offsetof(struct arena_layout, holder)))
        return false;
    ret_member->id = tenant.id;
    ret_member->weight = policy_weight(&tenant);
    ret_member->priority = tenant.priority;
    ret_member->state = tenant_state(&tenant, active, holder == index + 1, clock_ns());
    memcpy(ret_member->name, tenant.name, sizeof(ret_member->name));
    ret_member->name[sizeof(ret_member->name) - 1] = '\0';
    return true;
}

static int read_members(int fd, struct liveness *liveness, struct arena_view *view)
{
    unsigned processes[ARENA_TENANTS] = {0};
    bool active[ARENA_TENANTS] = {false};

    if (!count_processes(fd, liveness, processes, active))
        return -EPROTO;
    for (unsigned i = 0; i < ARENA_TENANTS; i++) {
        struct arena_member *member = &view->member[view->count];

        if (processes[i] == 0)
            continue;
        if (!read_member(fd, i, active[i], member))
            return -EPROTO;
        member->processes = processes[i];
        view->count += member->id != 0;
    }
    return 0;
}

static bool others_use(const char *uuid, const struct stat *ours)
{
    struct arena_entry *entries CLEANUP_FREE = calloc(ENTRIES_MOST, sizeof(*entries));
    unsigned count = 0, others = 0;

    if (!entries || arena_list(entries, ENTRIES_MOST, &count) < 0)
        return false;
    for (unsigned i = 0; i < count; i++)
        if (strcmp(entries[i].uuid, uuid) == 0 &&
            (entries[i].inode != ours->st_ino || entries[i].device != ours->st_dev))
            entries[others++] = entries[i];
    if (others > 0)
        arena_list_used(entries, others);
    for (unsigned i = 0; i < others; i++)
        if (entries[i].used)
            return true;
    return false;
}

int arena_view(const char *uuid, uid_t user, struct arena_view *ret_view)
{
    KEEP_ERRNO;
    struct arena_place place;
    struct liveness *liveness;
    struct stat st = {.st_ino = 0};
    int fd, rc = arena_place_find(uuid, user, &place);

    *ret_view = (struct arena_view){.count = 0};
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    rc = liveness_get(place.path, &liveness, &fd);
    if (rc == 0) {
        rc = arena_file_check(fd, &place, user, &st);
        if (rc == 0)
            rc = read_members(fd, liveness, ret_view);
        liveness_put(liveness);
    }
    ret_view->hidden = rc == -EACCES || rc == -EPERM || others_use(uuid, &st);
    return rc == -ENOENT ? 0 : rc;
}
