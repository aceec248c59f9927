/* Waits until its server has ended, and goes on: no signal ends the program, and the error tells what happened. */

#include <stdio.h>
#include <stdlib.h>

#include <stonecast.h>

int main(int argc, char **argv) {
    stonecast_client *client;
    if (argc != 2 || stonecast_connect(argv[1], NULL, &client, NULL) != STONECAST_STATUS_OK ||
        stonecast_put(client, "k", 1, "v", 1, NULL, NULL) != STONECAST_STATUS_OK) {
        return EXIT_FAILURE;
    }
    printf("connected\n");
    fflush(stdout);
    getchar();

    stonecast_error *error;
    for (int i = 0; i < 3; i++) {
        stonecast_status status = stonecast_put(client, "k", 1, "w", 1, NULL, &error);
        printf("disconnected: %s\n", status == STONECAST_STATUS_DISCONNECTED ? "yes" : stonecast_error_message(error));
        stonecast_error_free(error);
    }
    printf("closed: %s\n", stonecast_close(client) == STONECAST_STATUS_OK ? "yes" : "no");
    return EXIT_SUCCESS;
}
