#include "cli/folders.h"

#include "base/err.h"
#include "base/file.h"
#include "base/setting.h"
#include "cli/message.h"
#include "cli/path.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDERS_MAX 256

/* The visited directories, because two names may lead to one. */
struct seen {
    unsigned count;
    struct {
        dev_t device;
        ino_t inode;
    } folder[FOLDERS_MAX];
};

struct walk {
    const char *command;
    folder_visit *visit;
    void *arg;
    bool ended, failed;
    struct seen seen;
};

static bool seen_before(struct seen *seen, const struct stat *st)
{
    for (unsigned i = 0; i < seen->count; i++)
        if (seen->folder[i].device == st->st_dev && seen->folder[i].inode == st->st_ino)
            return true;
    if (seen->count == FOLDERS_MAX)
        return true;
    seen->folder[seen->count].device = st->st_dev;
    seen->folder[seen->count++].inode = st->st_ino;
    return false;
}

static void visit_runtime_dir(struct walk *walk, const char *runtime)
{
    char folder[PATH_MAX];
    struct stat st;
    uid_t self = geteuid();
    gid_t group = getegid();
    bool foreign;

    if (walk->ended || !path_join(folder, sizeof(folder), runtime, "instances") ||
        lstat(runtime, &st) < 0 || !S_ISDIR(st.st_mode) || seen_before(&walk->seen, &st))
        return;
    foreign = self == 0 && st.st_uid != 0;
    if (foreign && (setegid(st.st_gid) < 0 || seteuid(st.st_uid) < 0)) {
        message_error("%s: cannot take the rights of user %u to read %s: %s", walk->command,
                      st.st_uid, folder, strerror(errno));
        walk->failed = true;
    } else {
        walk->ended = !walk->visit(walk->arg, folder, st.st_uid);
    }
    if (foreign && (seteuid(self) < 0 || setegid(group) < 0))
        walk->failed = true;
}

static void visit_matches(struct walk *walk, const char *pattern)
{
    glob_t found = {0};

    if (!walk->ended && glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            visit_runtime_dir(walk, found.gl_pathv[i]);
    globfree(&found);
}

bool folders_visit(const char *command, folder_visit *visit, void *arg)
{
    struct walk walk = {.command = command, .visit = visit, .arg = arg};
    const char *chosen = setting_text(SETTING_RUNTIME_DIR);
    char path[PATH_MAX] = "", text[128];
    int error = runtime_dir(path, sizeof(path));

    if (error) {
        message_error("%s: the runtime directory %s cannot be used: %s", command,
                      chosen ? chosen : path, err_text(error, text, sizeof(text)));
        return false;
    }
    if (chosen) {
        /* A directory that the user has chosen may be a symbolic link, others may not. */
        char *real = realpath(path, NULL);

        if (real)
            visit_runtime_dir(&walk, real);
        free(real);
        return !walk.failed;
    }
    visit_runtime_dir(&walk, path);
    if (geteuid() == 0) {
        visit_matches(&walk, "/tmp/vgpu-*");
        visit_matches(&walk, "/run/user/*/vgpu");
        return !walk.failed;
    }
    /* The user's sessions may differ in their environment. */
    snprintf(path, sizeof(path), "/run/user/%u/vgpu", geteuid());
    visit_runtime_dir(&walk, path);
    snprintf(path, sizeof(path), "/tmp/vgpu-%u", geteuid());
    visit_runtime_dir(&walk, path);
    return !walk.failed;
}
