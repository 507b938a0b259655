/* Linked statically: no preload reaches it, and none may harm it. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    puts("hello");
    return argc > 1 ? atoi(argv[1]) : 0;
}
