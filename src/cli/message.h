/* Messages to the user on stderr: one line that begins with "vgpu: ". Each is one write(2), so that
 * lines of several processes do not mix. */
#ifndef VGPU_CLI_MESSAGE_H
#define VGPU_CLI_MESSAGE_H

/* A failure: what failed, with the value and the limit, and what to do. */
void message_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A fact that the user may not expect. */
void message_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void message_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
