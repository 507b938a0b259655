#include "cli/doctor.h"
#include "cli/turns.h"

static void add(const struct arena_entry *entry, int rc, void *arg)
{
    struct doctor *doctor = arg;
    char user[TURNS_USER_BYTES], text[64];

    if (!entry)
        return; /* doctor_arena_dir() checks the directory */
    if (rc == ARENA_BROKEN)
        doctor_add(doctor, DOCTOR_WARN, "turns",
                   "nothing: the next instance on that card makes it anew",
                   "the file for turns on %s is damaged", entry->uuid);
    else if (rc < 0)
        doctor_add(doctor, DOCTOR_WARN, "turns",
                   "remove the file, or choose another folder by VGPU_ARENA_DIR", "none on %s: %s",
                   entry->uuid, arena_error_text(rc, text, sizeof(text)));
    else
        doctor_add(doctor, DOCTOR_WARN, "turns",
                   "as root, make a folder that the users' group may write to (VGPU_ARENA_DIR in "
                   "libvgpu(7))",
                   "instances of user %s share %s without turns with yours",
                   turns_user(entry->owner, user, sizeof(user)), entry->uuid);
}

void doctor_turns(struct doctor *doctor)
{
    unsigned before = doctor->count;

    turns_examine(NULL, add, doctor);
    if (doctor->count == before)
        doctor_add(doctor, DOCTOR_OK, "turns", NULL,
                   "no arena is damaged, and no other user's is in use");
}
