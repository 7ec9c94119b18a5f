#include "kernels/cuda/attention_choice.hpp"

#include "kernels/backend/backend.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>

namespace troupe::kernels::cuda {

namespace {

constexpr std::int64_t most_head = 256;  // same limit as in attention.cuh

std::mutex noting;
std::string noted;  // guarded by `noting`
std::atomic<bool> has_noted = false;

std::string obstacle_of(const plugin& from) {
  return from ? from.function<attention_obstacle_function>("troupe_attention_obstacle")()
              : from.reason();
}

}  // namespace

attention_wish attention_wish_of(const char* text) {
  const std::string word = text == nullptr ? "" : text;
  if (word.empty())
    return attention_wish::library_if_there;
  if (word == "own")
    return attention_wish::own;
  if (word == "scalar")
    return attention_wish::scalar;
  if (word == "cudnn")
    return attention_wish::library;
  if (word == "cudnn,own")
    return attention_wish::library_then_own;
  throw backend_missing("the environment variable TROUPE_ATTENTION is '" + word
                        + "', which names no attention: set it to 'own', 'scalar', 'cudnn' or 'cudnn,own'."
                          " If it is not set, cuDNN's is used where it exists");
}

attention_library* attention_by(attention_wish wish, const plugin& (*open)()) {
  if (wish == attention_wish::own || wish == attention_wish::scalar)
    return nullptr;
  const plugin& from = open();
  const std::string obstacle = obstacle_of(from);
  if (obstacle.empty())
    return from.function<attention_library_function>("troupe_attention_library")();
  if (wish == attention_wish::library)
    throw backend_missing("TROUPE_ATTENTION selects cuDNN's attention, which cannot run: "
                          + obstacle + ". Unset it, or run `troupe doctor`");
  return nullptr;
}

attention_wish chosen_wish() {
  static const attention_wish wish = attention_wish_of(std::getenv("TROUPE_ATTENTION"));
  return wish;
}

attention_library* chosen_attention() {
  static attention_library* const chosen
      = attention_by(chosen_wish(), []() -> const plugin& { return plugin::open("cudnn"); });
  return chosen;
}

std::string missing_attention() {
  const auto* const library = chosen_attention();
  return library == nullptr ? "" : library->missing();
}

std::string attention_fallback() {
  const auto* const library = chosen_attention();
  return library == nullptr ? "" : library->fallback();
}

std::string why_scalar(const attention_shape& a, const attention_library* library) {
  const std::string by = " is computed by scalar kernels, which are slow: ";
  if (library == nullptr)
    return "attention" + by + "cuDNN is missing";
  if (a.Dv != a.D)
    return "attention with another head size for values" + by + "cuDNN's is not used for it";
  const std::string kind = a.p_drop > 0 ? " with dropout" : a.uniform ? "" : " of packed sequences";
  return "attention" + kind + by + "cuDNN's is not used for it on this device";
}

void note_scalar(const attention_shape& a) {
  const auto wish = chosen_wish();
  if (has_noted || wish == attention_wish::scalar || own_by(wish) == own_kernels::tensor_cores
      || !missing_attention().empty())
    return;
  const std::lock_guard lock(noting);
  if (!has_noted.exchange(true))
    noted = why_scalar(a, chosen_attention());
}
std::string scalar_attention() {
  const std::lock_guard lock(noting);
  return noted;
}

void check_missing(const attention_library& library, attention_wish wish) {
  if (wish != attention_wish::library)
    return;
  if (const std::string reason = library.missing(); !reason.empty())
    throw backend_missing("TROUPE_ATTENTION selects cuDNN's attention, which lacks kernels: "
                          + reason + ". Unset it, or run `troupe doctor`");
}

own_kernels own_by(attention_wish wish) {
  return wish == attention_wish::own || wish == attention_wish::library_then_own
             ? own_kernels::tensor_cores
             : own_kernels::scalar;
}
own_kernels chosen_own() {
  return own_by(chosen_wish());
}

std::string attention_version(attention_wish wish, const attention_library* library) {
  const bool wide = own_by(wish) == own_kernels::tensor_cores;
  const std::string own = wide ? "troupe on tensor cores" : "troupe";
  if (library == nullptr)
    return "attention by " + own;
  return "attention by " + library->version() + (wide ? ", else by " + own : "");
}

void check_attention(const attention_shape& a) {
  if (a.query_rows < 0 || a.key_rows < 0 || a.longest_query < 0 || a.longest_key < 0)
    throw std::logic_error(
        "ATTENTION-1: the extents of rows that lie on a device are known: attention was given "
        + std::to_string(a.query_rows) + " query rows, " + std::to_string(a.key_rows)
        + " key rows, the longest " + std::to_string(a.longest_query) + " and "
        + std::to_string(a.longest_key));
  if (a.pages != nullptr)
    throw backend_missing(
        "attention over pages of keys is not built for CUDA devices: use the backend 'cpu'");
  if (const auto largest = std::max(a.D, a.Dv); largest > most_head)
    throw backend_missing("attention on a CUDA device takes heads of at most "
                          + std::to_string(most_head) + " numbers, and these have "
                          + std::to_string(largest) + ": choose more and smaller heads, or the backend"
                          " 'cpu'");
}

}  // namespace troupe::kernels::cuda
