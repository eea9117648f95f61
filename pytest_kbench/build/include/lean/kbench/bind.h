// `PYBIND11_MODULE` and `m.def(name, function)` for kernels, in a few hundred lines that compile in no time.
//
// A module of functions is all that is offered: tensors, numbers, text, lists and tuples of these, and absent (None)
// arguments go in and out; positional arguments, defaults by `py::arg("x") = 1`, overloads, lambdas. Any other part of
// pybind11 is not declared here, so a source that uses it does not compile with this header.
//
// Tensors cross the border in torch's own two functions for it (`type_caster<at::Tensor>` in libtorch_python), which
// extensions built with pybind11 call too; the declarations below have their names and ABI.
#ifndef KBENCH_BIND_H
#define KBENCH_BIND_H

#include <Python.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/Exception.h>

#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace pybind11 {

class handle {
 public:
  PyObject* m_ptr = nullptr;
};

enum class return_value_policy : uint8_t {
  automatic = 0,
  automatic_reference,
  take_ownership,
  copy,
  move,
  reference,
  reference_internal
};

namespace detail {

template <typename T, typename Enable = void>
class type_caster;

template <>
class type_caster<at::Tensor> {
 public:
  __attribute__((visibility("default"))) bool load(handle source, bool convert);
  __attribute__((visibility("default"))) static handle cast(
      const at::Tensor& source, return_value_policy policy, handle parent);
  at::Tensor value;
};

}  // namespace detail
}  // namespace pybind11

namespace kbench __attribute__((visibility("hidden"))) {

// Raised where Python's own error is set already.
struct ErrorIsSet {};

// One owned reference.
class Owned {
 public:
  explicit Owned(PyObject* object) : object_(object) {
    if (object == nullptr) throw ErrorIsSet();
  }
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned(const Owned& other) : object_(Py_NewRef(other.object_)) {}
  Owned& operator=(Owned other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() { Py_XDECREF(object_); }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }

 private:
  PyObject* object_;
};

// How a type crosses the border: `load` (false: another type was given), `cast`, and its name in messages.
template <typename T, typename Enable = void>
struct Border;

template <>
struct Border<at::Tensor> {
  static bool load(PyObject* source, bool convert, at::Tensor& value) {
    pybind11::detail::type_caster<at::Tensor> caster;
    pybind11::handle handle;
    handle.m_ptr = source;
    if (!caster.load(handle, convert)) return false;
    value = std::move(caster.value);
    return true;
  }
  static PyObject* cast(const at::Tensor& value) {
    PyObject* made =
        pybind11::detail::type_caster<at::Tensor>::cast(value, pybind11::return_value_policy::move, {}).m_ptr;
    if (made == nullptr) throw ErrorIsSet();
    return made;
  }
  static std::string name() { return "torch.Tensor"; }
};

template <>
struct Border<bool> {
  static bool load(PyObject* source, bool, bool& value) {
    if (source != Py_True && source != Py_False) return false;
    value = source == Py_True;
    return true;
  }
  static PyObject* cast(bool value) { return PyBool_FromLong(value); }
  static std::string name() { return "bool"; }
};

template <typename T>
struct Border<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>>> {
  static bool load(PyObject* source, bool convert, T& value) {
    if (PyFloat_Check(source)) return false;
    if (!PyLong_Check(source) && !(convert && PyIndex_Check(source))) return false;
    PyObject* index = PyNumber_Index(source);
    if (index == nullptr) return failed();
    bool fits = false;
    if constexpr (std::is_signed_v<T>) {
      const long long wide = PyLong_AsLongLong(index);
      fits = wide >= std::numeric_limits<T>::min() && wide <= std::numeric_limits<T>::max();
      value = static_cast<T>(wide);
    } else {
      const unsigned long long wide = PyLong_AsUnsignedLongLong(index);
      fits = wide <= std::numeric_limits<T>::max();
      value = static_cast<T>(wide);
    }
    Py_DECREF(index);
    return PyErr_Occurred() ? failed() : fits;
  }
  static PyObject* cast(T value) {
    if constexpr (std::is_signed_v<T>) return PyLong_FromLongLong(value);
    else return PyLong_FromUnsignedLongLong(value);
  }
  static std::string name() { return "int"; }

 private:
  static bool failed() {
    PyErr_Clear();
    return false;
  }
};

template <typename T>
struct Border<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static bool load(PyObject* source, bool convert, T& value) {
    if (!convert && !PyFloat_Check(source)) return false;
    value = static_cast<T>(PyFloat_AsDouble(source));
    if (!PyErr_Occurred()) return true;
    PyErr_Clear();
    return false;
  }
  static PyObject* cast(T value) { return PyFloat_FromDouble(static_cast<double>(value)); }
  static std::string name() { return "float"; }
};

template <>
struct Border<at::Scalar> {
  static bool load(PyObject* source, bool convert, at::Scalar& value) {
    bool flag = false;
    int64_t whole = 0;
    double real = 0;
    if (Border<bool>::load(source, convert, flag)) value = at::Scalar(flag);
    else if (Border<int64_t>::load(source, convert, whole)) value = at::Scalar(whole);
    else if (Border<double>::load(source, convert, real)) value = at::Scalar(real);
    else return false;
    return true;
  }
  static std::string name() { return "a number"; }
};

template <>
struct Border<std::string> {
  static bool load(PyObject* source, bool, std::string& value) {
    if (!PyUnicode_Check(source)) return false;
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(source, &length);
    if (text == nullptr) throw ErrorIsSet();
    value.assign(text, static_cast<size_t>(length));
    return true;
  }
  static PyObject* cast(const std::string& value) {
    return PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size()));
  }
  static std::string name() { return "str"; }
};

template <>
struct Border<const char*> {
  static PyObject* cast(const char* value) { return PyUnicode_FromString(value); }
};

template <typename T>
struct Border<std::optional<T>> {
  static bool load(PyObject* source, bool convert, std::optional<T>& value) {
    if (source == Py_None) {
      value.reset();
      return true;
    }
    return Border<T>::load(source, convert, value.emplace());
  }
  static PyObject* cast(const std::optional<T>& value) {
    return value.has_value() ? Border<T>::cast(*value) : Py_NewRef(Py_None);
  }
  static std::string name() { return Border<T>::name() + " or None"; }
};

template <>
struct Border<std::nullopt_t> {
  static PyObject* cast(std::nullopt_t) { return Py_NewRef(Py_None); }
};

template <typename T>
struct Border<std::vector<T>> {
  static bool load(PyObject* source, bool convert, std::vector<T>& value) {
    if (!PyList_Check(source) && !PyTuple_Check(source)) return false;
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(source);
    value.clear();
    for (Py_ssize_t i = 0; i < size; ++i) {
      T element{};
      if (!Border<T>::load(PySequence_Fast_GET_ITEM(source, i), convert, element)) return false;
      value.push_back(std::move(element));
    }
    return true;
  }
  static PyObject* cast(const std::vector<T>& value) {
    Owned list(PyList_New(static_cast<Py_ssize_t>(value.size())));
    for (size_t i = 0; i < value.size(); ++i)
      PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), Owned(Border<T>::cast(value[i])).release());
    return list.release();
  }
  static std::string name() { return "a list of " + Border<T>::name(); }
};

template <typename Tuple, size_t... I>
PyObject* cast_each(const Tuple& value, std::index_sequence<I...>) {
  std::array<Owned, sizeof...(I)> parts{
      Owned(Border<std::decay_t<std::tuple_element_t<I, Tuple>>>::cast(std::get<I>(value)))...};
  Owned tuple(PyTuple_New(sizeof...(I)));
  (PyTuple_SET_ITEM(tuple.get(), I, parts[I].release()), ...);
  return tuple.release();
}

template <typename... T>
struct Border<std::tuple<T...>> {
  static PyObject* cast(const std::tuple<T...>& value) { return cast_each(value, std::index_sequence_for<T...>()); }
};

template <typename A, typename B>
struct Border<std::pair<A, B>> {
  static PyObject* cast(const std::pair<A, B>& value) { return cast_each(value, std::make_index_sequence<2>()); }
};

template <typename T, size_t N>
struct Border<std::array<T, N>> {
  static PyObject* cast(const std::array<T, N>& value) {
    return Border<std::vector<T>>::cast(std::vector<T>(value.begin(), value.end()));
  }
};

// What an argument is kept in while the function runs: an `ArrayRef` needs a vector behind it, others themselves.
template <typename T>
struct Kept {
  using type = T;
};
template <typename T>
struct Kept<c10::ArrayRef<T>> {
  using type = std::vector<T>;
};
template <typename T>
using kept_t = typename Kept<std::decay_t<T>>::type;

// Sets Python's error for the C++ exception in flight, as torch and pybind11 do.
__attribute__((noinline)) inline void set_error() {
  try {
    throw;
  } catch (const ErrorIsSet&) {
  } catch (const c10::IndexError& error) {
    PyErr_SetString(PyExc_IndexError, error.what_without_backtrace());
  } catch (const c10::ValueError& error) {
    PyErr_SetString(PyExc_ValueError, error.what_without_backtrace());
  } catch (const c10::TypeError& error) {
    PyErr_SetString(PyExc_TypeError, error.what_without_backtrace());
  } catch (const c10::NotImplementedError& error) {
    PyErr_SetString(PyExc_NotImplementedError, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  } catch (const std::bad_alloc& error) {
    PyErr_SetString(PyExc_MemoryError, error.what());
  } catch (const std::invalid_argument& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::domain_error& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::length_error& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::out_of_range& error) {
    PyErr_SetString(PyExc_IndexError, error.what());
  } catch (const std::range_error& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::overflow_error& error) {
    PyErr_SetString(PyExc_OverflowError, error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an exception of a type that is not derived from std::exception");
  }
}

// A parameter as `py::arg` describes it.
struct Parameter {
  std::string name;
  std::optional<Owned> fallback;
};

// One C++ function under a name.
class Overload {
 public:
  virtual ~Overload() = default;
  // The result, or null where the arguments are not this function's; `why` then says which. Throws what it throws.
  virtual PyObject* call(PyObject* const* given, size_t count, bool convert, std::string& why) const = 0;

  std::vector<Parameter> parameters;
  bool without_lock = false;
};

class Released {
 public:
  explicit Released(bool active) : state_(active ? PyEval_SaveThread() : nullptr) {}
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;
  ~Released() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }

 private:
  PyThreadState* state_;
};

template <typename Function, typename Result, typename... Arguments>
class Bound final : public Overload {
 public:
  explicit Bound(Function function) : function_(std::move(function)) {}

  PyObject* call(PyObject* const* given, size_t count, bool convert, std::string& why) const override {
    return call_with(given, count, convert, why, std::index_sequence_for<Arguments...>());
  }

 private:
  template <size_t... I>
  PyObject* call_with(
      PyObject* const* given, size_t count, bool convert, std::string& why, std::index_sequence<I...>) const {
    constexpr size_t wanted = sizeof...(Arguments);
    if (count > wanted) {
      why = "it takes " + std::to_string(wanted) + " arguments, " + std::to_string(count) + " were given";
      return nullptr;
    }
    std::tuple<kept_t<Arguments>...> kept;
    if (!(take(given, count, convert, I, std::get<I>(kept), why) && ...)) return nullptr;
    if constexpr (std::is_void_v<Result>) {
      {
        const Released released(without_lock);
        const_cast<Function&>(function_)(static_cast<Arguments>(std::get<I>(kept))...);
      }
      return Py_NewRef(Py_None);
    } else {
      auto result = [&]() -> std::decay_t<Result> {
        const Released released(without_lock);
        return const_cast<Function&>(function_)(static_cast<Arguments>(std::get<I>(kept))...);
      }();
      return Owned(Border<std::decay_t<Result>>::cast(result)).release();
    }
  }

  template <typename T>
  bool take(PyObject* const* given, size_t count, bool convert, size_t index, T& value, std::string& why) const {
    const Parameter* parameter = index < parameters.size() ? &parameters[index] : nullptr;
    PyObject* source = nullptr;
    if (index < count) source = given[index];
    else if (parameter != nullptr && parameter->fallback.has_value()) source = parameter->fallback->get();
    const std::string which = "argument " + std::to_string(index + 1) +
                              (parameter != nullptr ? " (" + parameter->name + ")" : std::string());
    if (source == nullptr) {
      why = which + " is missing";
      return false;
    }
    if (Border<T>::load(source, convert, value)) return true;
    why = which + " must be " + Border<T>::name() + ", not " + Py_TYPE(source)->tp_name;
    return false;
  }

  Function function_;
};

// A name of the module with its overloads; lives as long as the process.
struct Named {
  std::string name;
  std::vector<std::unique_ptr<Overload>> overloads;
  PyMethodDef definition{};
};

__attribute__((noinline)) inline PyObject* call_named(PyObject* self, PyObject* const* given, Py_ssize_t count) {
  try {
    const auto* named = static_cast<const Named*>(PyCapsule_GetPointer(self, nullptr));
    std::string why;
    for (const bool convert : {false, true}) {
      for (const auto& overload : named->overloads) {
        if (PyObject* result = overload->call(given, static_cast<size_t>(count), convert, why)) return result;
      }
    }
    PyErr_SetString(PyExc_TypeError, (named->name + "(): " + why).c_str());
  } catch (...) {
    set_error();
  }
  return nullptr;
}

template <typename F>
struct Signature : Signature<decltype(&F::operator())> {};
template <typename R, typename... A>
struct Signature<R (*)(A...)> {
  template <typename F>
  using bound = Bound<F, R, A...>;
};
template <typename R, typename... A>
struct Signature<R (*)(A...) noexcept> : Signature<R (*)(A...)> {};
template <typename C, typename R, typename... A>
struct Signature<R (C::*)(A...)> : Signature<R (*)(A...)> {};
template <typename C, typename R, typename... A>
struct Signature<R (C::*)(A...) const> : Signature<R (*)(A...)> {};
template <typename C, typename R, typename... A>
struct Signature<R (C::*)(A...) noexcept> : Signature<R (*)(A...)> {};
template <typename C, typename R, typename... A>
struct Signature<R (C::*)(A...) const noexcept> : Signature<R (*)(A...)> {};

// What may follow the function in `m.def`.
struct arg {
  explicit constexpr arg(const char* name) : name(name) {}
  template <typename T>
  auto operator=(T&& value) const;
  arg noconvert(bool = true) const { return *this; }
  arg none(bool = true) const { return *this; }
  const char* name;
};

struct arg_v {
  const char* name;
  Owned fallback;
};

template <typename T>
auto arg::operator=(T&& value) const {
  return arg_v{name, Owned(Border<std::decay_t<T>>::cast(value))};
}

struct gil_scoped_release {
  gil_scoped_release() : released_(true) {}

 private:
  Released released_;
};

template <typename... Guards>
struct call_guard {};

struct none {};

template <>
struct Border<none> {
  static PyObject* cast(none) { return Py_NewRef(Py_None); }
};

inline void describe(Overload&, const char*) {}
inline void describe(Overload& overload, const arg& named) { overload.parameters.push_back({named.name, {}}); }
inline void describe(Overload& overload, const arg_v& named) {
  overload.parameters.push_back({named.name, named.fallback});
}
inline void describe(Overload& overload, call_guard<gil_scoped_release>) { overload.without_lock = true; }
inline void describe(Overload&, call_guard<>) {}
inline void describe(Overload&, pybind11::return_value_policy) {}

// Takes a text, as `m.doc() = "..."` gives it.
struct Documentation {
  template <typename Text>
  Documentation& operator=(Text&& text) {
    const std::string copy(std::forward<Text>(text));
    if (PyModule_SetDocString(module, copy.c_str()) != 0) throw ErrorIsSet();
    return *this;
  }
  PyObject* module;
};

class Module {
 public:
  explicit Module(PyObject* module) : module_(module) {}

  template <typename Function, typename... Extra>
  Module& def(const char* name, Function&& function, const Extra&... extra) {
    using Stored = std::decay_t<Function>;
    auto overload = std::make_unique<typename Signature<Stored>::template bound<Stored>>(std::forward<Function>(function));
    (describe(*overload, extra), ...);
    add(name, std::move(overload));
    return *this;
  }

  Documentation doc() { return {module_}; }

 private:
  void add(const char* name, std::unique_ptr<Overload> overload) {
    for (const auto& known : named_) {
      if (known->name == name) {
        known->overloads.push_back(std::move(overload));
        return;
      }
    }
    named_.push_back(new Named);
    Named* made = named_.back();
    made->name = name;
    made->overloads.push_back(std::move(overload));
    made->definition.ml_name = made->name.c_str();
    made->definition.ml_meth = reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&call_named));
    made->definition.ml_flags = METH_FASTCALL;
    const Owned capsule(PyCapsule_New(made, nullptr, nullptr));
    const Owned module_name(PyModule_GetNameObject(module_));
    const Owned function(PyCFunction_NewEx(&made->definition, capsule.get(), module_name.get()));
    if (PyModule_AddObjectRef(module_, name, function.get()) != 0) throw ErrorIsSet();
  }

  PyObject* module_;
  std::vector<Named*> named_;
};

// The module of one library: `fill` adds its functions.
inline PyObject* make_module(PyModuleDef& definition, const char* name, void (*fill)(Module&)) {
  try {
    definition = PyModuleDef{PyModuleDef_HEAD_INIT, name, nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
    Owned module(PyModule_Create(&definition));
    Module named(module.get());
    fill(named);
    return module.release();
  } catch (...) {
    set_error();
    return nullptr;
  }
}

}  // namespace kbench

namespace pybind11 {

using kbench::arg;
using kbench::call_guard;
using kbench::gil_scoped_release;
using kbench::none;
using module_ = kbench::Module;
using module = kbench::Module;

inline namespace literals {
constexpr arg operator""_a(const char* name, size_t) { return arg(name); }
}  // namespace literals

}  // namespace pybind11

namespace py = pybind11;

#define KBENCH_JOIN_(a, b) a##b
#define KBENCH_JOIN(a, b) KBENCH_JOIN_(a, b)
#define KBENCH_TEXT_(a) #a
#define KBENCH_TEXT(a) KBENCH_TEXT_(a)

#define PYBIND11_MODULE(name, variable, ...)                                                      \
  static void KBENCH_JOIN(kbench_fill_, name)(::kbench::Module&);                                 \
  extern "C" __attribute__((visibility("default"))) PyObject* KBENCH_JOIN(PyInit_, name)() {      \
    static PyModuleDef definition;                                                                \
    return ::kbench::make_module(definition, KBENCH_TEXT(name), &KBENCH_JOIN(kbench_fill_, name)); \
  }                                                                                               \
  static void KBENCH_JOIN(kbench_fill_, name)([[maybe_unused]] ::kbench::Module & (variable))

#endif
