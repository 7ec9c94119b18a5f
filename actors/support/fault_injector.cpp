#include "actors/support/fault_injector.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/random.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <thread>

namespace troupe::actors {
namespace {

std::chrono::microseconds drawn(std::uint64_t seed, std::uint64_t index, int longest_us) {
  return std::chrono::microseconds(std::int64_t(
      runtime::uniform(runtime::random_key(seed, "delay", 0), index) * double(longest_us)));
}

/// "stage:1.2" for "stage:1.2.0": tensor rank 0 goes without saying.
std::string short_form(std::string who) {
  if (std::count(who.begin(), who.end(), '.') == 2 && who.ends_with(".0"))
    who.resize(who.size() - 2);
  return who;
}

}  // namespace

fault_injector::fault_injector(const runtime::fault_settings& settings) : settings_(settings) {
  if (settings_.fault.empty())
    return;
  const auto at = settings_.fault.rfind('@');
  const char* const end = settings_.fault.data() + settings_.fault.size();
  const char* stop = nullptr;
  if (at != std::string::npos && at > 0) {
    stop = std::from_chars(settings_.fault.data() + at + 1, end, first_).ptr;
    last_step_ = first_;
    if (stop != end && *stop == '-')
      stop = std::from_chars(stop + 1, end, last_step_).ptr;
  }
  if (stop != end)
    throw runtime::input_error(
        "`faults.fault` '{}' is not of the form WHO@STEP or WHO@FIRST-LAST, e.g. stage:0.1@3; WHO "
        "is supervisor, node, loader, checkpointer, monitor, replica:R, stage:R.P.T, lane:R.P.T, "
        "wire:R.P.T or nan:R.P.T",
        settings_.fault);
  who_ = short_form(settings_.fault.substr(0, at));
}

bool fault_injector::injects(const std::string& who, std::uint64_t step) const {
  return first_ <= step && step <= last_step_ && who_ == short_form(who);
}

void fault_injector::inject(const std::string& who, std::uint64_t step) const {
  if (injects(who, step))
    throw std::runtime_error("the fault injected for " + settings_.fault);
}

void fault_injector::delay_lane() const {
  if (settings_.lane_delay_us > 0)
    std::this_thread::sleep_for(drawn(settings_.seed, drawn_++, settings_.lane_delay_us));
}

std::chrono::nanoseconds fault_injector::message_delay(std::uint64_t from, std::uint64_t to) const {
  const auto now = std::chrono::steady_clock::now();
  const auto wish = now + drawn(settings_.seed, drawn_++, settings_.message_delay_us);
  const std::lock_guard lock(mutex_);
  auto& last = last_[{from, to}];
  last = std::max(wish, last + std::chrono::microseconds(1));
  return last - now;
}

}  // namespace troupe::actors
