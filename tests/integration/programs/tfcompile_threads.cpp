// tfcompile_threads - prints how many tasks of a run the threads of an Eigen::ThreadPoolDevice were given.
#define EIGEN_USE_THREADS
#include <cstring>
#include <functional>
#include <iostream>
#include <utility>

#include "require.h"
#include "tfaot-model-tf-product/tf_product_bs1.h"
#include "third_party/eigen3/unsupported/Eigen/CXX11/Tensor"

using tfaot_model::tf_product_bs1;

namespace {

class CountingPool : public Eigen::ThreadPoolInterface {
 public:
  explicit CountingPool(int threads) : pool_(threads) {}

  void Schedule(std::function<void()> task) override {
    ++tasks;
    pool_.Schedule(std::move(task));
  }
  int NumThreads() const override { return pool_.NumThreads(); }
  int CurrentThreadId() const override { return pool_.CurrentThreadId(); }

  int tasks = 0;

 private:
  Eigen::ThreadPool pool_;
};

}  // namespace

int main() {
  CountingPool pool(4);
  const Eigen::ThreadPoolDevice device(&pool, pool.NumThreads());
  tf_product_bs1 alone, shared;
#ifdef NO_DEVICE
  shared.set_thread_pool(&pool);
#endif
  shared.set_thread_pool(&device);
  for (int i = 0; i < tf_product_bs1::arg0_count(); ++i)
    alone.arg0_data()[i] = shared.arg0_data()[i] = static_cast<float>(i % 97) - 48;
  REQUIRE(alone.Run() && pool.tasks == 0);
  REQUIRE(shared.Run() && std::memcmp(alone.result0_data(), shared.result0_data(), alone.result0_size()) == 0);
  const int tasks = pool.tasks;
  shared.set_thread_pool(nullptr);
  REQUIRE(shared.Run() && pool.tasks == tasks);
  std::cout << tasks;
}
