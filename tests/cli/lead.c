/* lead FOLDER: leads the instance in FOLDER, as a `vgpu run` does, until its standard input ends;
 * says so first. */
#include "account/member.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 2 || member_lead(argv[1]) < 0)
        return 2;
    puts("leads");
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    return 0;
}
