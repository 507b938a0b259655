/*
 * Messages on stderr: one line, one write(2), with the prefix "vgpu: ". They bypass stdio, so the
 * program's own buffers stay untouched. VGPU_LOG_LEVEL, else LIBCUDA_LOG_LEVEL, sets the level
 * once. All functions keep errno and are thread-safe.
 */
#ifndef VGPU_BASE_LOG_H
#define VGPU_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum log_level {
    LOG_LEVEL_ERROR = 0,   /* always written */
    LOG_LEVEL_NOTICE = 1,  /* a refusal of memory */
    LOG_LEVEL_WARNING = 2, /* the default */
    LOG_LEVEL_INFO = 3,
    LOG_LEVEL_DEBUG = 4,
};

bool log_wanted(enum log_level level);
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Replaces control characters and invalid UTF-8 by question marks. A message quotes names and
 * values of other users: it must stay one line and must not control the terminal. log_write() does
 * this itself.
 */
void log_make_plain(char *text, size_t length);

#define log_error(...)   log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_notice(...)  log_write(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_write(LOG_LEVEL_INFO, __VA_ARGS__)
/* Without debugging a debug line costs one load and does not evaluate its arguments. */
#define log_debug(...)                                                                             \
    do {                                                                                           \
        if (log_wanted(LOG_LEVEL_DEBUG))                                                           \
            log_write(LOG_LEVEL_DEBUG, __VA_ARGS__);                                               \
    } while (0)

#endif
