/* The parts of `vgpu doctor`. */
#ifndef VGPU_CLI_DOCTOR_H
#define VGPU_CLI_DOCTOR_H

#include <stdbool.h>

#define DOCTOR_CHECKS_MAX 32

enum doctor_level { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

struct doctor_check {
    enum doctor_level level;
    const char *name;
    const char *advice; /* NULL: there is nothing to do */
    char detail[768];
};

struct doctor {
    unsigned count;
    struct doctor_check check[DOCTOR_CHECKS_MAX];
};

/* Adds a finding. `name` and `advice` are constant texts. */
void doctor_add(struct doctor *doctor, enum doctor_level level, const char *name,
                const char *advice, const char *detail, ...) __attribute__((format(printf, 5, 6)));

/* Each adds one finding or more. */
void doctor_driver(struct doctor *doctor);
void doctor_nvml(struct doctor *doctor);
void doctor_libc(struct doctor *doctor);
void doctor_library(struct doctor *doctor); /* also whether a child loads it */
void doctor_runtime_dir(struct doctor *doctor);
void doctor_arena_dir(struct doctor *doctor);
void doctor_turns(struct doctor *doctor);
void doctor_preload_file(struct doctor *doctor);
void doctor_environment(struct doctor *doctor);
void doctor_namespaces(struct doctor *doctor);
void doctor_guard(struct doctor *doctor); /* none of them fails: nobody needs the guard */
void doctor_program(struct doctor *doctor, const char *program);

/* The hidden command that doctor_library() starts with the library preloaded. */
#define DOCTOR_PROBE "__preloaded"
/* 0: this process has mapped the file `library`; 1: it has not. */
int doctor_probe(const char *library);

#endif
