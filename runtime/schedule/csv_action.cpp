#include "runtime/schedule/csv_action.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::uint32_t largest_number = 1000000;
constexpr std::uint32_t largest_block = 65535;

constexpr std::array kinds = {
    std::pair{std::string_view("F"), action_kind::forward},
    std::pair{std::string_view("B"), action_kind::backward},
    std::pair{std::string_view("I"), action_kind::input_gradients},
    std::pair{std::string_view("W"), action_kind::weight_gradients},
    std::pair{std::string_view("R"), action_kind::recompute},
    std::pair{std::string_view("SEND_F"), action_kind::send_activation},
    std::pair{std::string_view("RECV_F"), action_kind::receive_activation},
    std::pair{std::string_view("SEND_B"), action_kind::send_gradient},
    std::pair{std::string_view("RECV_B"), action_kind::receive_gradient},
    std::pair{std::string_view("REDUCE_GRAD"), action_kind::reduce_gradients},
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// The unread rest of an action's text.
class reader {
 public:
  explicit reader(std::string_view text) : rest_(text) {}

  bool take(char c) {
    const bool is_next = !rest_.empty() && rest_.front() == c;
    rest_.remove_prefix(is_next ? 1 : 0);
    return is_next;
  }

  std::uint32_t number(const char* what, std::uint32_t largest) {
    if (rest_.empty() || !is_digit(rest_.front()))
      throw input_error(
          "the number of its {} is missing: an action is stage, action, micro-batch, such "
          "as 0F3",
          what);
    std::uint64_t out = 0;
    for (; !rest_.empty() && is_digit(rest_.front()); rest_.remove_prefix(1))
      out = std::min<std::uint64_t>(out * 10 + std::uint64_t(rest_.front() - '0'), 1ULL << 32);
    if (out > largest)
      throw input_error("the number of its {} is above {}", what, largest);
    return std::uint32_t(out);
  }

  action_kind kind() {
    const auto size = std::min(rest_.find_first_of("0123456789."), rest_.size());
    const auto name = rest_.substr(0, size);
    rest_.remove_prefix(size);
    for (const auto& [known, kind] : kinds)
      if (name == known)
        return kind;
    if (name == "UNSHARD" || name == "RESHARD")
      throw input_error(
          "{} belongs to torch's FSDP, whose plan gathers and frees parameters; "
          "here the parameter store does: remove it",
          name);
    throw input_error(
        "there is no action '{}'; there are F, B, I, W, R and, in lowered plans, "
        "SEND_F, RECV_F, SEND_B, RECV_B and REDUCE_GRAD",
        name);
  }

  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

bool has_blocks(action_kind kind) {
  return kind == action_kind::recompute || kind == action_kind::backward
         || kind == action_kind::input_gradients || kind == action_kind::weight_gradients;
}

}  // namespace

read_action action_from_text(std::string_view text) {
  reader from(text);
  read_action out;
  if (from.take('a') || from.take('b')) {
    out.names_copy = true;
    out.what.copy = copy_id(text.front() - 'a');
  }
  out.what.chunk = chunk_id(from.number("stage", largest_number));
  out.what.kind = from.kind();
  if (out.what.kind != action_kind::reduce_gradients)
    out.what.microbatch = microbatch_id(from.number("micro-batch", largest_number));
  if (has_blocks(out.what.kind) && from.take('.'))
    out.what.block = std::uint16_t(from.number("block", largest_block));
  if (!from.rest().empty())
    throw input_error("'{}' follows where the action ends", from.rest());
  return out;
}

}  // namespace troupe::runtime
