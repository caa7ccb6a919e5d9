// Asks before something is done that cannot be undone: `if (await confirm({ … })) …`.

export interface Question {
  title: string;
  /** What will happen, and to what. */
  text: string;
  /** What the button says: the verb. */
  action: string;
  danger?: boolean;
  /** This must be typed first, such as the name of what goes. */
  typed?: string;
}

class Confirmation {
  question = $state.raw<Question | null>(null);
  #answer: ((yes: boolean) => void) | null = null;

  ask(question: Question): Promise<boolean> {
    this.give(false);
    this.question = question;
    return new Promise((resolve) => (this.#answer = resolve));
  }

  give(yes: boolean): void {
    const answer = this.#answer;
    this.#answer = null;
    this.question = null;
    answer?.(yes);
  }
}

export const confirmation = new Confirmation();
export const confirm = (question: Question): Promise<boolean> => confirmation.ask(question);
