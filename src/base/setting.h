/*
 * The environment variables that vgpu reads, one row of spec/config.def each. No other file of src
 * calls getenv(). All functions keep errno. Any thread may call them while no thread changes the
 * environment, which owns the texts.
 */
#ifndef VGPU_BASE_SETTING_H
#define VGPU_BASE_SETTING_H

#include <stdbool.h>
#include <stdint.h>

enum setting {
#define SETTING(id, env, type, help, ...) SETTING_##id,
#include "config.def"
#undef SETTING
    SETTINGS
};

#define SETTING_NAME_BYTES 64

struct setting_row {
    const char *env;   /* "<i>" in it stands for the number of a device */
    const char *type;  /* a word for display */
    const char *range; /* the accepted texts, for display; the words of a "word", divided by '|' */
    const char *initial; /* the value of an unset variable; NULL: there is none */
    uint64_t min, max;   /* of a number, inclusive */
    bool secure;         /* unset for a program with more rights than its caller */
};
extern const struct setting_row setting_rows[SETTINGS];

/* The variable's name, for messages and setenv(). */
const char *setting_name(enum setting setting);

/* The value, which may be ""; NULL: the variable is not set. */
const char *setting_raw(enum setting setting);

/* The value; NULL: the variable is not set, or empty. */
const char *setting_text(enum setting setting);

/*
 * The same; always NULL in a program with more rights than its caller, such as a set-user-ID one.
 */
const char *setting_secure_text(enum setting setting);

/* The value for one device of a row with "<i>"; `name` receives the variable's name. */
const char *setting_device_text(enum setting setting, unsigned device,
                                char name[SETTING_NAME_BYTES]);

/* The number in `text`, if that is a decimal number not below the row's min; a number above max
 * counts as max. For NULL and all other texts the row's initial value, or 0. */
uint64_t setting_number_of(enum setting setting, const char *text);
uint64_t setting_number(enum setting setting);

/* Whether `text` is one of the row's words, in upper or lower case. */
bool setting_accepts(enum setting setting, const char *text);

#endif
