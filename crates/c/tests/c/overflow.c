/* Reads one byte behind a value, so that a test sees whether the sanitizer notices. */

#include <stdlib.h>

#include <stonecast.h>

int main(int argc, char **argv) {
    stonecast_client *client;
    stonecast_value *value;
    if (argc != 2 || stonecast_connect(argv[1], NULL, &client, NULL) != STONECAST_STATUS_OK ||
        stonecast_put(client, "k", 1, "12345678", 8, NULL, NULL) != STONECAST_STATUS_OK ||
        stonecast_get(client, "k", 1, &value, NULL) != STONECAST_STATUS_OK) {
        return EXIT_FAILURE;
    }
    stonecast_bytes bytes = stonecast_value_bytes(value);
    const volatile char *text = bytes.data;
    int behind = text[bytes.size];
    stonecast_value_free(value);
    stonecast_close(client);
    return behind == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
