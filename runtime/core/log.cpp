#include "runtime/core/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <utility>

namespace troupe::runtime {
namespace {

std::shared_ptr<spdlog::logger> make(const char* name, spdlog::sink_ptr sink, const char* pattern) {
  auto out = std::make_shared<spdlog::logger>(name, std::move(sink));
  out->set_pattern(pattern);
  out->flush_on(spdlog::level::trace);
  return out;
}

spdlog::logger& output() {
  static const auto it = make("out", std::make_shared<spdlog::sinks::stdout_sink_mt>(), "%v");
  return *it;
}

spdlog::logger& complaints() {
  static const auto it
      = make("err", std::make_shared<spdlog::sinks::stderr_sink_mt>(), "troupe: %l: %v");
  return *it;
}

}  // namespace

void set_log_level(severity lowest) {
  const auto level = lowest == severity::debug     ? spdlog::level::debug
                     : lowest == severity::info    ? spdlog::level::info
                     : lowest == severity::warning ? spdlog::level::warn
                                                   : spdlog::level::err;
  output().set_level(level);
  complaints().set_level(level);
}

void log_line(severity how, std::string_view text) {
  const spdlog::string_view_t line(text.data(), text.size());
  switch (how) {
    case severity::debug:
      return output().debug(line);
    case severity::info:
      return output().info(line);
    case severity::warning:
      return complaints().warn(line);
    case severity::error:
      return complaints().error(line);
  }
}

}  // namespace troupe::runtime
