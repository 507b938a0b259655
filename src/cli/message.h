/*
 * What the command says to the user on stderr: one line each, beginning with "vgpu: ". Each is one
 * write, so that lines of several processes do not mix.
 */
#ifndef VGPU_CLI_MESSAGE_H
#define VGPU_CLI_MESSAGE_H

/* A failure: the thing, the value, the limit, and what to do. */
void message_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Something that works otherwise than the user may think. */
void message_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void message_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
