/* Says its first argument. Built without a dynamic loader, and with one of another C library. */
#include <stdio.h>

int main(int argc, char **argv)
{
    return argc > 1 && puts(argv[1]) < 0;
}
