// A pool of threads that tokenize batches of records and return them in order.

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

/// The tokens of a batch for one key.
struct tokenized_key {
  std::string tokens;                   ///< in the token type of the data set
  std::vector<std::int32_t> lengths;    ///< tokens per sequence
  std::vector<std::int64_t> sequences;  ///< sequences per document
  std::uint64_t bytes = 0;              ///< of text
  std::int64_t empty_documents = 0;
};

/// Successive records of one file.
struct preprocess_batch {
  const std::filesystem::path* path = nullptr;
  text_format format = text_format::jsonl;
  std::string text;  ///< all records, concatenated
  struct record {
    std::size_t end;     ///< offset in `text`; it begins at the end of the previous record
    std::uint64_t line;  ///< line in the file
  };
  std::vector<record> records;
  std::uint64_t input = 0;     ///< number of the file
  record_position after = {};  ///< the end of the batch in the file
  std::uint64_t file_bytes = 0;

  std::vector<tokenized_key> by_key;  ///< filled by a worker
  std::exception_ptr failure;         ///< the error of the first failed record
  bool done = false;                  ///< protected by the lock of the queue
};

/// A queue of batches with worker threads. One thread puts and takes; it tokenizes batches itself
/// instead of waiting. `workers - 1` more threads tokenize, or fewer if the system refuses them.
class preprocess_workers {
 public:
  preprocess_workers(const tokenizer& with, const preprocess_options& options);
  ~preprocess_workers();  ///< drops the remaining batches

  void put(std::unique_ptr<preprocess_batch> batch);

  /// Waits for the oldest batch and returns it. Requires !empty().
  std::unique_ptr<preprocess_batch> take();

  /// The oldest batch if it is done, else null.
  std::unique_ptr<preprocess_batch> take_if_done();

  bool empty() const { return queue_.empty(); }  ///< only for the thread that puts and takes

 private:
  class worker;

  void help();
  preprocess_batch* next_waiting();  ///< call with the lock held

  const tokenizer& with_;
  const preprocess_options& options_;
  std::mutex guard_;
  std::condition_variable waiting_, finished_;
  std::deque<std::unique_ptr<preprocess_batch>> queue_;
  std::size_t started_ = 0;  ///< batches at the front of the queue that a worker has taken
  bool quit_ = false;
  std::unique_ptr<worker> own_;
  std::vector<std::jthread> others_;
};

}  // namespace troupe::runtime
