/* modelwheel/export.h - marks the functions that a model's library offers to others. */
#ifndef MODELWHEEL_EXPORT_H
#define MODELWHEEL_EXPORT_H

/* MODELWHEEL_BUILDING is defined while the library itself is compiled, MODELWHEEL_STATIC if it is a static one. */
#if defined(MODELWHEEL_STATIC)
#define MODELWHEEL_EXPORT
#elif defined(_WIN32) && defined(MODELWHEEL_BUILDING)
#define MODELWHEEL_EXPORT __declspec(dllexport)
#elif defined(_WIN32)
#define MODELWHEEL_EXPORT __declspec(dllimport)
#else
#define MODELWHEEL_EXPORT __attribute__((visibility("default")))
#endif

#endif /* MODELWHEEL_EXPORT_H */
