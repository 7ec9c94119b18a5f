// Batches of records, tokenized by several threads and handed back in their order.

#pragma once

#include "runtime/core/cancel.hpp"
#include "runtime/data/preprocess.hpp"
#include "runtime/data/record_reader.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace troupe::runtime {

/// What the records of a batch became under one key.
struct tokenized_key {
  std::string tokens;                   ///< of the data set's type
  std::vector<std::int32_t> lengths;    ///< of sequences, in tokens
  std::vector<std::int64_t> sequences;  ///< of each document
  std::uint64_t bytes = 0;              ///< of text
  std::int64_t empty_documents = 0;
};

/// Records of one file that follow each other.
struct preprocess_batch {
  const std::filesystem::path* path = nullptr;
  text_format format = text_format::jsonl;
  std::string text;  ///< of all records, one after the other
  struct record {
    std::size_t end;     ///< in the text; it begins where the one before ends
    std::uint64_t line;  ///< in the file
  };
  std::vector<record> records;
  std::uint64_t input = 0;     ///< which file
  record_position after = {};  ///< in it
  std::uint64_t file_bytes = 0;

  std::vector<tokenized_key> by_key;  ///< filled by a worker
  std::exception_ptr failure;         ///< of the first record that failed
  bool done = false;                  ///< by the queue's lock
};

/// A queue with threads behind it. One thread puts and takes, and tokenizes as well while it would
/// wait; `workers - 1` others help. Where the system gives fewer threads, fewer do.
class preprocess_workers {
 public:
  preprocess_workers(const tokenizer& with, const preprocess_options& options);
  ~preprocess_workers();  ///< what was not taken is dropped

  void put(std::unique_ptr<preprocess_batch> batch);

  /// The oldest, done. There must be one.
  std::unique_ptr<preprocess_batch> take();

  /// The oldest if it is done, else null.
  std::unique_ptr<preprocess_batch> take_if_done();

  bool empty() const { return queue_.empty(); }  ///< of the one thread's

 private:
  class worker;

  void help();
  preprocess_batch* next_waiting();  ///< by the lock

  const tokenizer& with_;
  const preprocess_options& options_;
  std::mutex guard_;
  std::condition_variable waiting_, finished_;
  std::deque<std::unique_ptr<preprocess_batch>> queue_;
  std::size_t started_ = 0;  ///< of the queue, how many a worker has
  bool quit_ = false;
  std::unique_ptr<worker> own_;
  std::vector<std::jthread> others_;
};

}  // namespace troupe::runtime
