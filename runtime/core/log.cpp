#include "runtime/core/log.hpp"

#include <spdlog/async.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::size_t waiting_lines = 8192;

/// Counts what was written, so that one can wait for it.
class counting_sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit counting_sink(spdlog::sink_ptr to) : to_(std::move(to)) {}
  std::uint64_t written() const { return written_; }

 protected:
  void sink_it_(const spdlog::details::log_msg& line) override {
    to_->log(line);
    to_->flush();
    ++written_;
  }
  void flush_() override { to_->flush(); }
  void set_pattern_(const std::string& pattern) override { to_->set_pattern(pattern); }
  void set_formatter_(std::unique_ptr<spdlog::formatter> how) override {
    to_->set_formatter(std::move(how));
  }

 private:
  spdlog::sink_ptr to_;
  std::atomic<std::uint64_t> written_ = 0;
};

struct log_state {
  std::shared_ptr<counting_sink> out_sink
      = std::make_shared<counting_sink>(std::make_shared<spdlog::sinks::stdout_sink_mt>());
  std::shared_ptr<counting_sink> err_sink
      = std::make_shared<counting_sink>(std::make_shared<spdlog::sinks::stderr_sink_mt>());
  std::shared_ptr<spdlog::details::thread_pool> writer;  ///< null: lines are written at once
  std::shared_ptr<spdlog::logger> out, err;
  std::atomic<std::uint64_t> posted = 0;  ///< to the writer

  log_state() { open(); }

  void open() {
    out = make("out", out_sink, "%v");
    err = make("err", err_sink, "troupe: %l: %v");
  }

  std::shared_ptr<spdlog::logger> make(const char* name,
                                       const spdlog::sink_ptr& sink,
                                       const char* pattern) const {
    const auto logger = writer == nullptr
                            ? std::make_shared<spdlog::logger>(name, sink)
                            : std::make_shared<spdlog::async_logger>(
                                name, sink, writer, spdlog::async_overflow_policy::overrun_oldest);
    logger->set_pattern(pattern);
    return logger;
  }
};

// Never destroyed: its writer may hang on a reader that does not read.
log_state& state() {
  static auto* const it = new log_state;
  return *it;
}

spdlog::level::level_enum level_of(severity x) {
  switch (x) {
    case severity::debug:
      return spdlog::level::debug;
    case severity::info:
      return spdlog::level::info;
    case severity::warning:
      return spdlog::level::warn;
    case severity::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void set_log_level(severity lowest) {
  state().out->set_level(level_of(lowest));
  state().err->set_level(level_of(lowest));
}

void write_log_beside() {
  auto& log = state();
  const auto level = log.out->level();
  log.writer = std::make_shared<spdlog::details::thread_pool>(waiting_lines, 1);
  log.open();
  log.out->set_level(level);
  log.err->set_level(level);
}

bool finish_log(std::chrono::milliseconds patience) {
  auto& log = state();
  if (log.writer == nullptr)
    return true;
  const auto done = [&log] {
    return log.out_sink->written() + log.err_sink->written() + log.writer->overrun_counter()
           >= log.posted;
  };
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > until)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

void log_line(severity how, std::string_view text) {
  auto& log = state();
  const bool output = how == severity::debug || how == severity::info;
  auto& by = output ? log.out : log.err;
  if (!by->should_log(level_of(how)))
    return;
  if (log.writer != nullptr)
    ++log.posted;
  by->log(level_of(how), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace troupe::runtime
