/* require.h - ends the program with the place and the condition that does not hold. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(condition)                                            \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)
