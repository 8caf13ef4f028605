// files.h - inputs and outputs of the C++ consumer as files, by position.
#pragma once

#include <cstddef>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "modelwheel/buffer.hpp"

/// The directory that the consumer reads from and writes to.
struct Files {
  std::string directory;

  template <class T>
  modelwheel::AlignedVector<T> read(std::size_t index, std::size_t elements) const {
    modelwheel::AlignedVector<T> values(elements);
    std::ifstream file(directory + "/input_" + std::to_string(index), std::ios::binary);
    file.read(reinterpret_cast<char *>(values.data()), static_cast<std::streamsize>(elements * sizeof(T)));
    if (!file) throw std::runtime_error("input " + std::to_string(index) + " is missing or too short");
    return values;
  }

  template <class T>
  void write(std::size_t index, const T *values, std::size_t elements) const {
    std::ofstream file(directory + "/output_" + std::to_string(index), std::ios::binary);
    file.write(reinterpret_cast<const char *>(values), static_cast<std::streamsize>(elements * sizeof(T)));
    if (!file) throw std::runtime_error("output " + std::to_string(index) + " cannot be written");
  }

  /// One vector of elements for each row.
  template <class T>
  std::vector<std::vector<T>> read_rows(std::size_t index, std::size_t rows, std::size_t row_elements) const {
    const auto values = read<T>(index, rows * row_elements);
    std::vector<std::vector<T>> result;
    for (std::size_t row = 0; row < rows; ++row) {
      const T *first = values.data() + row * row_elements;
      result.emplace_back(first, first + row_elements);
    }
    return result;
  }

  template <class T>
  void write_rows(std::size_t index, const std::vector<std::vector<T>> &rows) const {
    std::size_t elements = 0;
    for (const std::vector<T> &row : rows) elements += row.size();
    modelwheel::AlignedVector<T> values(elements);
    T *next = values.data();
    for (const std::vector<T> &row : rows) next = std::copy(row.begin(), row.end(), next);
    write(index, values.data(), elements);
  }
};
