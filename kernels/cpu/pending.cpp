// Operations whose bf16 is still to come.

#include "kernels/cpu/cpu.hpp"

#include <stdexcept>

namespace troupe::kernels::cpu {
namespace {
[[noreturn]] void pending() {
  throw std::logic_error("this operation does not compute in bf16 yet");
}
}  // namespace

template <class T>
void run(const linear_forward<T>&, const context&) {
  pending();
}
template <class T>
void run(const linear_backward_input<T>&, const context&) {
  pending();
}
template <class T>
void run(const linear_backward_weight<T>&, const context&) {
  pending();
}
template <class T>
void run(const norm_forward<T>&, const context&) {
  pending();
}
template <class T>
void run(const norm_backward_input<T>&, const context&) {
  pending();
}
template <class T>
void run(const norm_backward_weight<T>&, const context&) {
  pending();
}
template <class T>
void run(const activation_forward<T>&, const context&) {
  pending();
}
template <class T>
void run(const activation_backward<T>&, const context&) {
  pending();
}
template <class T>
void run(const rope<T>&, const context&) {
  pending();
}
template <class T>
void run(const embedding_forward<T>&, const context&) {
  pending();
}
template <class T>
void run(const embedding_backward<T>&, const context&) {
  pending();
}
template <class T>
void run(const dropout_forward<T>&, const context&) {
  pending();
}
template <class T>
void run(const dropout_backward<T>&, const context&) {
  pending();
}
template <class T>
std::size_t scratch(const norm_backward_weight<T>&, int) {
  pending();
}
template <class T>
std::size_t scratch(const linear_backward_weight<T>&, int) {
  pending();
}
template void run(const linear_forward<bf16>&, const context&);
template void run(const linear_backward_input<bf16>&, const context&);
template void run(const linear_backward_weight<bf16>&, const context&);
template void run(const norm_forward<bf16>&, const context&);
template void run(const norm_backward_input<bf16>&, const context&);
template void run(const norm_backward_weight<bf16>&, const context&);
template void run(const activation_forward<bf16>&, const context&);
template void run(const activation_backward<bf16>&, const context&);
template void run(const rope<bf16>&, const context&);
template void run(const embedding_forward<bf16>&, const context&);
template void run(const embedding_backward<bf16>&, const context&);
template void run(const dropout_forward<bf16>&, const context&);
template void run(const dropout_backward<bf16>&, const context&);
template std::size_t scratch(const norm_backward_weight<bf16>&, int);
template std::size_t scratch(const linear_backward_weight<bf16>&, int);

}  // namespace troupe::kernels::cpu
