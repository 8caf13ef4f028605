// tests.h - tests of kernels, which register themselves: KERNEL_TEST(name) { ... } in any source of this directory.
#pragma once

struct KernelTest {
  const char *name;
  void (*run)();
};

/// A test that main runs. Its address is in a section of its own, so that nothing happens before main: these sources
/// are compiled with the instructions of a level, which this CPU may lack.
#define KERNEL_TEST(test)                                                                           \
  static void test_##test();                                                                        \
  static constexpr KernelTest registered_##test = {#test, test_##test};                             \
  __attribute__((used, section("kernel_tests"))) static const KernelTest *const address_of_##test = \
      &registered_##test;                                                                           \
  static void test_##test()

/// Functions of kernels, for all element types they are for. tests/support/kernels.py makes a source of them that has
/// nothing else, to look at its symbols and to compile it for other platforms.
#define KERNEL_INSTANCES(...)
