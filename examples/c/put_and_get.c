/* Stores a value, reads it in two ways, and removes it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stonecast.h>

/* Prints the error and its effect, and ends the program. */
static void fail(const char *what, stonecast_error *error) {
    static const char *const effects[] = {"nothing was done", "it was done", "the outcome is unknown"};
    fprintf(stderr, "%s: %s (%s)\n", what, stonecast_error_message(error), effects[stonecast_error_effect(error)]);
    stonecast_error_free(error);
    exit(EXIT_FAILURE);
}

int main(int argc, char **argv) {
    const char *url = argc > 1 ? argv[1] : "shm:./stonecast-data/socket";
    const char *key = "greeting";
    stonecast_client *client;
    stonecast_error *error;
    if (stonecast_connect(url, NULL, &client, &error) != STONECAST_STATUS_OK) {
        fail("connect", error);
    }

    uint64_t version;
    if (stonecast_put(client, key, strlen(key), "hello", 5, &version, &error) != STONECAST_STATUS_OK) {
        fail("put", error);
    }

    /* A value of its own, which any thread may use and free. */
    stonecast_value *value;
    if (stonecast_get(client, key, strlen(key), &value, &error) != STONECAST_STATUS_OK) {
        fail("get", error);
    }
    stonecast_bytes bytes = stonecast_value_bytes(value);
    printf("%.*s, as written: %s\n", (int)bytes.size, (const char *)bytes.data,
           stonecast_value_version(value) == version ? "yes" : "no");
    stonecast_value_free(value);

    /* A copy in memory of the program: nothing is allocated. */
    char buffer[64];
    size_t size;
    switch (stonecast_get_into(client, key, strlen(key), buffer, sizeof buffer, &size, NULL, &error)) {
    case STONECAST_STATUS_OK:
        printf("%.*s\n", (int)size, buffer);
        break;
    case STONECAST_STATUS_ABSENT:
        printf("nobody is greeted\n");
        break;
    case STONECAST_STATUS_TOO_SMALL:
        printf("the greeting has %zu bytes\n", size);
        break;
    default:
        fail("get", error);
    }

    if (stonecast_delete(client, key, strlen(key), &error) != STONECAST_STATUS_OK) {
        fail("delete", error);
    }
    stonecast_close(client);
    return EXIT_SUCCESS;
}
