/* What the library offers, as the rendered header of a model declares it. */
MODELWHEEL_EXPORT int model_tiny_run(size_t level, const float *in, float *out, size_t n);
MODELWHEEL_EXPORT float model_tiny_sum(const float *values, size_t n);
