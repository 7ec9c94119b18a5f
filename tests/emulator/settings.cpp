#include "tests/emulator/settings.hpp"

#include "tests/emulator/control.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <sstream>
#include <thread>
#include <unistd.h>
#include <vector>

namespace troupe::emulator {
namespace {

struct fault {
  std::string call;
  std::uint64_t nth;
  bool ever_after;
  int error;
  std::uint64_t seen = 0;
};

struct fault_list {
  std::mutex mutex;
  std::vector<fault> faults;
  std::atomic<bool> any = false;
};

[[noreturn]] void refuse(const char* name, const std::string& text, const char* expected) {
  std::fprintf(stderr, "%s is '%s'; expected %s\n", name, text.c_str(), expected);
  std::exit(2);
}

template <class T>
T number_in(const char* name, const std::string& all) {
  T value = {};
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), value);
  if (error != std::errc{} || end != all.data() + all.size())
    refuse(name, all, "a whole number");
  return value;
}

template <class T>
T number(const char* name, T otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : number_in<T>(name, text);
}

std::vector<int> numbers(const char* name, std::vector<int> otherwise) {
  const char* const text = std::getenv(name);
  if (text == nullptr)
    return otherwise;
  std::vector<int> out;
  std::istringstream all(text);
  for (std::string one; std::getline(all, one, ',');)
    out.push_back(number_in<int>(name, one));
  if (out.empty())
    refuse(name, text, "whole numbers, separated by commas");
  return out;
}

/// "cudaMalloc@3+=2"
fault fault_of(const std::string& text) {
  std::istringstream from(text);
  fault is = {};
  char equals = 0;
  std::getline(from, is.call, '@');
  from >> is.nth;
  is.ever_after = from.peek() == '+' && from.get() != 0;
  from >> equals >> is.error;
  if (!from || equals != '=' || from.peek() != std::istringstream::traits_type::eof())
    refuse("TROUPE_EMULATED_FAULT", text, "<call>@<nth>=<error>, as cudaMalloc@3=2,");
  return is;
}

// Never destroyed: streams still work while the process ends.
fault_list& faults() {
  static auto* const list = new fault_list;
  return *list;
}

settings* from_environment() {
  auto* const is = new settings;
  const int cores = int(std::max(1U, std::thread::hardware_concurrency()));
  std::vector<int> all(std::size_t(number("TROUPE_EMULATED_DEVICES", is->devices)));
  std::iota(all.begin(), all.end(), 0);
  const int devices = int(all.size());
  is->visible = numbers("CUDA_VISIBLE_DEVICES", std::move(all));
  std::erase_if(is->visible, [devices](int x) { return x < 0 || x >= devices; });
  is->devices = int(is->visible.size());
  is->memory = number("TROUPE_EMULATED_MEMORY", is->memory);
  is->driver = number("TROUPE_EMULATED_DRIVER", is->driver);
  is->processors = number("TROUPE_EMULATED_PROCESSORS", is->processors);
  is->architectures = numbers("TROUPE_EMULATED_ARCHITECTURE", is->architectures);
  is->threads = std::max(1, number("TROUPE_EMULATED_THREADS", std::min(4, cores)));
  is->occupied = number("TROUPE_EMULATED_OCCUPIED", is->occupied);
  is->seed = number("TROUPE_EMULATED_SEED", is->seed.load());
  is->delay_us = number("TROUPE_EMULATED_DELAY_US", is->delay_us.load());
  if (const char* const text = std::getenv("TROUPE_EMULATED_STUCK"); text != nullptr) {
    const std::string told = text;
    const auto at = std::min(told.find('@'), told.size());
    is->stuck = number_in<int>("TROUPE_EMULATED_STUCK", told.substr(0, at));
    is->stuck_while = told.substr(std::min(at + 1, told.size()));
  }
  is->coarse = number("TROUPE_EMULATED_COARSE", 0) != 0;
  if (const char* const text = std::getenv("TROUPE_EMULATED_FAULT"); text != nullptr)
    plant_faults(text);
  return is;
}

}  // namespace

settings& machine() {
  static auto* const is = from_environment();
  return *is;
}

int number_on_machine(int device) {
  return machine().visible.at(std::size_t(device));
}

int architecture_of(int device) {
  const auto& all = machine().architectures;
  return all[std::min(std::size_t(number_on_machine(device)), all.size() - 1)];
}

call_counts& counted() {
  static auto* const is = new call_counts;
  return *is;
}

calls calls_so_far() {
  return {counted().waits, counted().launches, counted().products, counted().warm_products};
}

void plant_faults(const std::string& text) {
  auto& list = faults();
  const std::lock_guard lock(list.mutex);
  list.faults.clear();
  std::istringstream all(text);
  for (std::string one; std::getline(all, one, ',');)
    list.faults.push_back(fault_of(one));
  list.any = !list.faults.empty();
}

int planted_fault(const char* name) {
  auto& list = faults();
  if (!list.any)
    return 0;
  const std::lock_guard lock(list.mutex);
  int error = 0;
  for (auto& one : list.faults) {
    if (one.call != name)
      continue;
    ++one.seen;
    if (one.seen == one.nth || (one.ever_after && one.seen > one.nth))
      error = one.error;
  }
  return error;
}

void set_seed(std::uint64_t seed) {
  machine().seed = seed;
}

void set_delay(std::uint64_t us) {
  machine().delay_us = us;
}

void set_coarse(bool coarse) {
  machine().coarse = coarse;
}

bool host_can_read(const void* at) {
  int ends[2];
  if (::pipe(ends) != 0)
    return false;
  const bool readable = ::write(ends[1], at, 1) == 1;  // EFAULT otherwise
  ::close(ends[0]);
  ::close(ends[1]);
  return readable;
}

}  // namespace troupe::emulator
