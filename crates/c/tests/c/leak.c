/* Forgets a value that was read, so that a test sees whether the sanitizer notices. */

#include <stdlib.h>

#include <stonecast.h>

/* Static memory that is cleared before the end: no register or stack keeps the pointer. */
static stonecast_value *value;

int main(int argc, char **argv) {
    stonecast_client *client;
    if (argc != 2 || stonecast_connect(argv[1], NULL, &client, NULL) != STONECAST_STATUS_OK ||
        stonecast_put(client, "k", 1, "v", 1, NULL, NULL) != STONECAST_STATUS_OK ||
        stonecast_get(client, "k", 1, &value, NULL) != STONECAST_STATUS_OK) {
        return EXIT_FAILURE;
    }
    value = NULL;
    stonecast_close(client);
    return EXIT_SUCCESS;
}
