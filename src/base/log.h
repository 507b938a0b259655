/*
 * Messages on stderr: one line, one write(2), prefix "vgpu: ". No stdio stream is touched, so a
 * program's own buffers stay as they are. The level comes from VGPU_LOG_LEVEL, else
 * LIBCUDA_LOG_LEVEL, read once. Keeps errno; thread-safe.
 */
#ifndef VGPU_BASE_LOG_H
#define VGPU_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum log_level {
    LOG_LEVEL_ERROR = 0,   /* always written */
    LOG_LEVEL_NOTICE = 1,  /* what a user must know: a refusal of memory */
    LOG_LEVEL_WARNING = 2, /* the default */
    LOG_LEVEL_INFO = 3,
    LOG_LEVEL_DEBUG = 4,
};

bool log_wanted(enum log_level level);
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Replaces control characters, and what is no UTF-8, by question marks. A message quotes what
 * others have written, names and values: what is one line stays one, and no terminal obeys it.
 * log_write() does this itself.
 */
void log_make_plain(char *text, size_t length);

#define log_error(...)   log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_notice(...)  log_write(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_write(LOG_LEVEL_INFO, __VA_ARGS__)
/* Debug lines cost one load where they are not wanted: their arguments are not evaluated. */
#define log_debug(...)                                                                             \
    do {                                                                                           \
        if (log_wanted(LOG_LEVEL_DEBUG))                                                           \
            log_write(LOG_LEVEL_DEBUG, __VA_ARGS__);                                               \
    } while (0)

#endif
