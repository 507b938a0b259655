/*
 * Processes of a test that tell one another when to go on, and hand descriptors over. What fails
 * ends the process.
 */
#ifndef TESTS_SIM_PEERS_H
#define TESTS_SIM_PEERS_H

#include <sys/types.h>

void send_fd(int socket, int fd);
int receive_fd(int socket);
void send_byte(int socket);
void await_byte(int socket);

/* A child that runs `run` with a socket of its own for orders, of which the parent gets the other
 * end. */
pid_t with_orders(void (*run)(int peer, int orders, const char *end), int peer, const char *end,
                  int *ret_orders);

#endif
