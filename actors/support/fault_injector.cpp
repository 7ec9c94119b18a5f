#include "actors/support/fault_injector.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/random.hpp"
#include "runtime/core/waiting.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

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
  for (const auto text : runtime::faults_in(settings_.fault)) {
    injected_fault fault{.text = std::string(text)};
    const auto at = text.rfind('@');
    const char* const end = text.data() + text.size();
    const char* stop = nullptr;
    if (at != std::string_view::npos && at > 0) {
      stop = std::from_chars(text.data() + at + 1, end, fault.first).ptr;
      fault.last = fault.first;
      if (stop != end && *stop == '-')
        stop = std::from_chars(stop + 1, end, fault.last).ptr;
    }
    if (stop != end)
      throw runtime::input_error(
          "`faults.fault` '{}' is not of the form WHO@STEP or WHO@FIRST-LAST, e.g. stage:0.1@3; "
          "WHO is supervisor, node, loader, checkpointer, monitor, replica:R, stage:R.P.T, "
          "lane:R.P.T, wire:R.P.T or nan:R.P.T",
          text);
    fault.who = short_form(fault.text.substr(0, at));
    faults_.push_back(std::move(fault));
  }
}

const fault_injector::injected_fault* fault_injector::find(const std::string& who,
                                                           std::uint64_t step) const {
  for (const auto& x : faults_)
    if (x.first <= step && step <= x.last && x.who == short_form(who))
      return &x;
  return nullptr;
}

bool fault_injector::injects(const std::string& who, std::uint64_t step) const {
  return find(who, step) != nullptr;
}

void fault_injector::inject(const std::string& who, std::uint64_t step) const {
  if (const auto* const found = find(who, step))
    throw std::runtime_error("the fault injected for " + found->text);
}

void fault_injector::delay_lane() const {
  if (settings_.lane_delay_us > 0)
    runtime::sleep_for(drawn(settings_.seed, drawn_++, settings_.lane_delay_us));
}

std::chrono::nanoseconds fault_injector::message_delay(
    std::uint64_t from, std::uint64_t to, std::chrono::steady_clock::time_point now) const {
  const auto wish = now + drawn(settings_.seed, drawn_++, settings_.message_delay_us);
  const std::lock_guard lock(mutex_);
  auto& last = last_[{from, to}];
  last = std::max(wish, last + std::chrono::microseconds(1));
  return last - now;
}

}  // namespace troupe::actors
